"""Which tests run with both Tritons in `make test`, and what all tests share."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.settings import RESIDENT_VARIABLE
from harness.workers.fork_servers.shared_zygotes import SharedZygotes
from tests.kept_zygotes import keeping

HERE = Path(__file__).parent
DEPENDENT = tuple(
    HERE / name
    for name in (
        "compiling",
        "engines/cuda/sanitizers/test_instrumented.py",
        "engines/cuda/test_engine.py",
        "engines/cuda/test_launches.py",
        "engines/jax/test_jax_calls.py",
        "engines/jax/test_jax_seam.py",
        "engines/torch/inductor/test_compiled_programs.py",
        "engines/torch/inductor/test_inductor_seam.py",
        "engines/triton",
        "engines/ttir",
        "engines/virtual",
        "findings/reduction/test_reduction.py",
        "oracles/test_triton_sanitizer.py",
        "workers/test_triton_sanitizers.py",
    )
)
"""Rooms and files whose tests run with both Tritons.  A test elsewhere opts in with the marker `both`."""


def depends(path: Path) -> bool:
    return any(path.is_relative_to(dependent) for dependent in DEPENDENT)


def is_unread(path: Path, marks: str) -> bool:
    """Report if a run with these marks needs no test of a file, since it runs those for both Tritons alone.

    Reading the other files takes as long as many of the tests.
    """
    wants_both = "both" in marks.split(" and ") and path.name.startswith("test_")
    return wants_both and not depends(path) and "mark.both" not in path.read_text(encoding="utf-8")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_unread(collection_path, config.getoption("markexpr") or "") or None


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what depends on Triton; files with slow tests come first, so that no process has one left at the end."""
    for item in items:
        if depends(item.path):
            item.add_marker(pytest.mark.both)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_configure() -> None:
    """Leave no resident: a test that needs one makes it."""
    os.environ[RESIDENT_VARIABLE] = "0"


def pytest_collection_finish() -> None:
    """Keep thousands of collected tests out of each garbage collection, and of each search for objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def kept_zygotes() -> Iterator[None]:
    """Let the pools of all tests share zygotes."""
    kept = SharedZygotes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharedZygotes, "of", keeping(kept, SharedZygotes.of))
        yield
    kept.close()


@pytest.fixture(autouse=True)
def own_search_path() -> Iterator[None]:
    """Take back what a test has put on `sys.path`: later zygotes would start with it."""
    before = [*sys.path]
    yield
    sys.path[:] = before
