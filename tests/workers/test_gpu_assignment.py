"""Which real GPU each of a pool's processes gets: told by its environment, and not given out once it is sick."""

from dataclasses import replace

import pytest

from harness.cuda.emulation import gpu_of
from harness.cuda.gpus.canary import Healthy, Sick
from harness.cuda.gpus.health import LOST
from harness.cuda.gpus.inventory import RealGpu
from harness.cuda.gpus.xid import Xid
from harness.cuda.gpus.xid_monitor import XidMonitor
from harness.errors import GpuUnavailable, MissingPart
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.spec import WorkerSpec
from tests.cuda.samples import H200, Told
from tests.oracles.facts import DEVICE

pytestmark = pytest.mark.once

OTHER = replace(H200, uuid="GPU-other")
SPEC = WorkerSpec(device=DEVICE, suites=(), scratch="", environment=(("A", "1"),))


def quarantined(gpu: RealGpu | None, reason: str) -> str:
    return f"{gpu} is in quarantine for this session: {reason}. Its cases go to other GPUs; no kernel is blamed"


def test_each_process_sees_one_gpu_and_gives_it_back() -> None:
    places = GpuAssigner((H200, OTHER), print)
    first, second = places.take(SPEC), places.take(SPEC)
    assert {gpu_of(first.environment), gpu_of(second.environment)} == {H200, OTHER}
    assert first.environment[0] == second.environment[0] == ("A", "1")
    places.give_back(second)
    assert places.take(SPEC) == second
    places.give_back(first)
    with pytest.raises(ValueError, match="given back and never taken"):
        places.give_back(first)


@pytest.mark.parametrize(("said", "got"), [({}, "1"), ({"CUDA_DEVICE_MAX_CONNECTIONS": "32"}, "32")])
def test_a_process_has_one_queue_to_its_gpu_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, str], got: str
) -> None:
    monkeypatch.delenv("CUDA_DEVICE_MAX_CONNECTIONS", raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert dict(GpuAssigner((H200,), print).take(SPEC).environment)["CUDA_DEVICE_MAX_CONNECTIONS"] == got


def test_a_sick_gpu_is_told_once_and_given_to_nobody() -> None:
    told: list[str] = []
    places = GpuAssigner((H200, OTHER), told.append)
    sick = places.take(SPEC)
    places.give_up(sick, "it cannot count")
    places.give_up(sick, "it cannot count")
    assert told == [quarantined(gpu_of(sick.environment), "it cannot count")]
    well = places.take(SPEC)
    assert gpu_of(well.environment) != gpu_of(sick.environment)
    places.give_up(well, "neither can this")
    with pytest.raises(GpuUnavailable):
        places.take(SPEC)


def test_a_gpu_whose_card_is_reported_and_that_fails_the_canary_is_given_to_nobody() -> None:
    told: list[str] = []
    asked: list[str] = []

    def ask(gpu: RealGpu) -> Healthy | Sick:
        asked.append(gpu.uuid)
        return Sick(reason="the canary gave no answer")

    events = Told(Xid(uuid=H200.uuid, code=79), Xid(uuid="GPU-of-others", code=79))
    places = GpuAssigner((H200, OTHER), told.append, XidMonitor((H200, OTHER), lambda: events, ask))
    assert [gpu_of(places.take(SPEC).environment) for _ in range(2)] == [OTHER, OTHER]
    assert asked == [H200.uuid]
    reported = f"{H200.uuid} reported Xid 79: the GPU has fallen off the bus"
    assert told == [quarantined(H200, f"{reported}, and the canary gave no answer")]


@pytest.mark.parametrize(("code", "asks"), [(31, 0), (79, 1), (9999, 1)])
def test_the_canary_is_asked_where_no_kernel_is_to_blame_and_a_gpu_that_passes_stays(code: int, asks: int) -> None:
    asked: list[RealGpu] = []

    def ask(gpu: RealGpu) -> Healthy | Sick:
        asked.append(gpu)
        return Healthy()

    vigil = XidMonitor((H200,), lambda: Told(Xid(uuid=H200.uuid, code=code)), ask)
    places = GpuAssigner((H200,), print, vigil)
    assert gpu_of(places.take(SPEC).environment) == H200
    assert asked == [H200] * asks


def test_where_a_gpu_is_lost_and_does_not_tell_which_every_one_is_asked() -> None:
    def ask(gpu: RealGpu) -> Healthy | Sick:
        return Healthy() if gpu == OTHER else Sick(reason="the canary failed: no such device")

    events = Told(Xid(uuid=H200.uuid, code=31), Xid(uuid=LOST, code=79))
    vigil = XidMonitor((H200, OTHER), lambda: events, ask)
    ((gpu, reason),) = vigil.sick()
    assert (gpu, reason) == (
        H200,
        "a GPU that is lost reported Xid 79: the GPU has fallen off the bus, and the canary failed: no such device",
    )


def test_where_nobody_tells_of_events_or_can_ask_every_gpu_stays_in_use() -> None:
    def nobody() -> Told:
        raise MissingPart("nvidia-ml-py is not here")

    def cannot_ask(_: RealGpu) -> Healthy | Sick:
        raise MissingPart("torch is not here")

    assert XidMonitor((H200,), nobody).sick() == ()
    assert XidMonitor((OTHER,), lambda: Told(Xid(uuid=H200.uuid, code=79))).sick() == ()
    assert XidMonitor((H200,), lambda: Told(Xid(uuid=H200.uuid, code=79)), cannot_ask).sick() == ()
