"""Which real GPU each of a pool's processes gets: told by its environment, and not given out once it is sick."""

from dataclasses import replace

import pytest

from harness.cuda.wearing import gpu_of
from harness.errors import GpuUnavailable
from harness.workers.places import GpuPlaces
from harness.workers.spec import WorkerSpec
from tests.cuda.samples import H200
from tests.oracles.facts import DEVICE

pytestmark = pytest.mark.once

OTHER = replace(H200, uuid="GPU-other")
SPEC = WorkerSpec(device=DEVICE, suites=(), scratch="", environment=(("A", "1"),))


def test_each_process_sees_one_gpu_and_gives_it_back() -> None:
    places = GpuPlaces((H200, OTHER), print)
    first, second = places.take(SPEC), places.take(SPEC)
    assert {gpu_of(first.environment), gpu_of(second.environment)} == {H200, OTHER}
    assert first.environment[0] == second.environment[0] == ("A", "1")
    places.give_back(second)
    assert places.take(SPEC) == second
    places.give_back(first)
    with pytest.raises(ValueError, match="given back and never taken"):
        places.give_back(first)


def test_a_sick_gpu_is_told_once_and_given_to_nobody() -> None:
    told: list[str] = []
    places = GpuPlaces((H200, OTHER), told.append)
    sick = places.take(SPEC)
    places.give_up(sick, "it cannot count")
    places.give_up(sick, "it cannot count")
    assert told == [f"{gpu_of(sick.environment)} is out of use: it cannot count"]
    well = places.take(SPEC)
    assert gpu_of(well.environment) != gpu_of(sick.environment)
    places.give_up(well, "neither can this")
    with pytest.raises(GpuUnavailable):
        places.take(SPEC)
