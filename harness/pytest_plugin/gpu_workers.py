"""Hardware GPUs under pytest: one worker of pytest-xdist for each GPU, and one leased GPU for each pytest process.

A lease ends with its process.  So the worker that replaces a dead one gets any free GPU.
"""

from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest

from harness.engines.cuda.gpus.inventory import RealGpu, inventory, real_gpus
from harness.errors import HarnessError, MissingPart
from harness.model.engine_traits import CUDA, VIRTUAL, EngineTraits, find_engine
from harness.pytest_plugin.plugin_options import AUTO, PARTS, SETTINGS, names_suites
from harness.search.engine_choice import parse_engine
from harness.search.leasing import leased

WAIT_S = 60.0
"""A killed process needs a moment to release its GPU."""
LEASED = pytest.StashKey[RealGpu]()


def engine_for(config: pytest.Config) -> EngineTraits:
    """Return the engine that `--harness-engine` names; for `auto`, the one that this machine can run.

    Raises:
        UsageError: there is no such engine.
    """
    engine: str = config.option.harness_engine
    if engine != AUTO:
        return parse_engine(engine)
    return VIRTUAL if _missing() else CUDA


def why_virtual(config: pytest.Config) -> str:
    """Return why `auto` chooses the virtual GPU although there is a driver of NVIDIA's; empty in all other cases.

    A machine without a driver usually has no GPU, and the user of the virtual GPU knows it.
    """
    return _problem() if config.option.harness_engine == AUTO else ""


@cache
def _problem() -> str:
    return _missing() if _missing() and inventory().has_driver else ""


@cache
def _missing() -> str:
    try:
        real_gpus()
    except MissingPart as missing:
        return str(missing)
    return ""


def uses_gpus(config: pytest.Config) -> bool:
    """Return True if cases run on hardware GPUs.  With `auto`, a run that names no suites does not."""
    engine: str = config.option.harness_engine
    if engine != AUTO:
        known = find_engine(engine)
        return known is not None and known.needs_gpu
    return names_suites(config) and not _missing()


def count() -> int:
    """Return the number of GPUs that cases can run on.

    Raises:
        pytest.UsageError: there is none.
    """
    try:
        return len(real_gpus())
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from None


def part_of(index: int, count: int, parts: int) -> int:
    """Return the part, of `parts` equal ones, that holds the test of this index among `count` tests."""
    return index * parts // count


def next_tests(config: pytest.Config, index: int, count: int) -> range:
    """Return the indices of the tests that this process is sure to run after the one of this index."""
    worker_input: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker_input is None:
        return range(index + 1, count)
    parts: int = worker_input.get(PARTS, 0)
    if not parts:
        return range(0)
    own = part_of(index, count, parts)
    end = next((later for later in range(index, count) if part_of(later, count, parts) != own), count)
    return range(index + 1, end)


def gpu_of(config: pytest.Config) -> RealGpu:
    """Return the GPU of this pytest process.  The first call leases it, until the process ends.

    Raises:
        HarnessError: there is none, or all are leased to others.
    """
    if LEASED not in config.stash:
        held = ExitStack()
        (config.stash[LEASED],) = held.enter_context(leased(1, config.stash[SETTINGS], WAIT_S))
        config.add_cleanup(held.close)
    return config.stash[LEASED]
