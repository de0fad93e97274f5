"""Real GPUs under pytest: a worker of pytest-xdist for each GPU, and a leased GPU for each pytest process.

A worker that dies loses its lease with its life, so the one that replaces it gets whatever GPU is free.
"""

from contextlib import ExitStack

import pytest

from harness.cuda.gpus import RealGpu, real_gpus
from harness.cuda.leases import lease
from harness.errors import HarnessError
from harness.search.options import CUDA, ENGINES

WAIT_S = 60.0
"""Processes that were killed need a moment to let go."""
LEASED = pytest.StashKey[RealGpu]()


def is_asked_for(config: pytest.Config) -> bool:
    """Whether this run is one on real GPUs."""
    engine: str = config.option.harness_engine
    return ENGINES.get(engine, engine) == CUDA


def count() -> int:
    """How many GPUs cases can run on.

    Raises:
        pytest.UsageError: there is none.
    """
    try:
        return len(real_gpus())
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from None


def gpu_of(config: pytest.Config) -> RealGpu:
    """The GPU of this pytest process, leased when it is first asked for, until the process ends.

    Raises:
        HarnessError: there is none, or all are leased to others.
    """
    if LEASED not in config.stash:
        held = ExitStack()
        (config.stash[LEASED],) = held.enter_context(lease(real_gpus(), wanted=1, wait_s=WAIT_S))
        config.add_cleanup(held.close)
    return config.stash[LEASED]
