"""The memory that one launch may take.  A launch that needs more raises, and the machine goes on."""

import resource
from collections.abc import Generator
from contextlib import contextmanager

import psutil

from harness.workers.supervision.memory_limit import limit_growth


@contextmanager
def bounded_memory(share: float) -> Generator[None]:
    """Let this process allocate no more than a share of the machine's available memory while the context lasts."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit_growth(int(share * psutil.virtual_memory().available))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
