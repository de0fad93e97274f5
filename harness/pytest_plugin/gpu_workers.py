"""Real GPUs under pytest: a worker of pytest-xdist for each GPU, and a leased GPU for each pytest process.

A worker that dies loses its lease with its life, so the one that replaces it gets whatever GPU is free.
"""

from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.cuda.gpus.inventory import RealGpu, real_gpus
from harness.errors import HarnessError, MissingPart
from harness.pytest_plugin import AUTO, SUITES
from harness.search.leasing import leased
from harness.search.options import CUDA, ENGINES, ON_GPUS, VIRTUAL, engine_of

WAIT_S = 60.0
"""Processes that were killed need a moment to let go."""
LEASED = pytest.StashKey[RealGpu]()
PARTS = "harness_parts"
"""In how many parts pytest-xdist's workers share the tests, one after the other; 0 where any may get any."""


def engine_for(config: pytest.Config) -> str:
    """The factory of what `--harness-engine` asks for; of `auto`, what this machine has.

    Raises:
        UsageError: there is no such engine.
    """
    engine: str = config.option.harness_engine
    return engine_of(engine) if engine != AUTO else VIRTUAL if _missing() else CUDA


def why_virtual(config: pytest.Config) -> str:
    """Why cases go to the virtual GPU where the choice was left to the harness; empty where it was not, or has none."""
    return _missing() if config.option.harness_engine == AUTO else ""


@cache
def _missing() -> str:
    try:
        real_gpus()
    except MissingPart as missing:
        return str(missing)
    return ""


def is_asked_for(config: pytest.Config) -> bool:
    """Whether this run is one on real GPUs; one that names no suite is not, unless it says so."""
    engine: str = config.option.harness_engine
    if engine != AUTO:
        return ENGINES.get(engine, engine) in ON_GPUS
    return any(SUITES in Path(argument).parts for argument in config.args) and not _missing()


def count() -> int:
    """How many GPUs cases can run on.

    Raises:
        pytest.UsageError: there is none.
    """
    try:
        return len(real_gpus())
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from None


def part_of(index: int, count: int, parts: int) -> int:
    """Which part of so many, alike in size, the test of this index among `count` belongs to."""
    return index * parts // count


def coming(config: pytest.Config, index: int, count: int) -> range:
    """The indices of the tests that this process runs after the one of this index, as far as it knows."""
    of_worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if of_worker is None:
        return range(index + 1, count)
    parts: int = of_worker.get(PARTS, 0)
    if not parts:
        return range(0)
    mine = part_of(index, count, parts)
    end = next((later for later in range(index, count) if part_of(later, count, parts) != mine), count)
    return range(index + 1, end)


def gpu_of(config: pytest.Config) -> RealGpu:
    """The GPU of this pytest process, leased when it is first asked for, until the process ends.

    Raises:
        HarnessError: there is none, or all are leased to others.
    """
    if LEASED not in config.stash:
        held = ExitStack()
        (config.stash[LEASED],) = held.enter_context(leased(1, WAIT_S))
        config.add_cleanup(held.close)
    return config.stash[LEASED]
