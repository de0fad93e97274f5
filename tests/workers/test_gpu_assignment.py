"""Each process of a pool gets a healthy GPU through its environment."""

from dataclasses import replace

import pytest

from harness.engines.cuda.emulation import gpu_of
from harness.engines.cuda.gpus.canary import Healthy, Sick
from harness.engines.cuda.gpus.health import LOST
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.gpus.symptoms import Xid
from harness.engines.cuda.gpus.xid_monitor import XidMonitor
from harness.errors import GpuUnavailable, MissingPart
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.spec import WorkerSpec
from tests.engines.cuda.samples import H200, FakeXidSource
from tests.oracles.facts import DEVICE

OTHER = replace(H200, uuid="GPU-other")
SPEC = WorkerSpec(device=DEVICE, suites=(), scratch="", environment=(("A", "1"),))


def quarantined(gpu: RealGpu | None, reason: str) -> str:
    return f"{gpu} is in quarantine for this session: {reason}. Its cases go to other GPUs; no kernel is blamed"


def test_each_process_sees_one_gpu_and_gives_it_back() -> None:
    assigner = GpuAssigner((H200, OTHER), print)
    first, second = assigner.take(SPEC), assigner.take(SPEC)
    assert {gpu_of(first.environment), gpu_of(second.environment)} == {H200, OTHER}
    assert first.environment[0] == second.environment[0] == ("A", "1")
    assigner.give_back(second)
    assert assigner.take(SPEC) == second
    assigner.give_back(first)
    with pytest.raises(ValueError, match="given back and never taken"):
        assigner.give_back(first)


def test_a_sick_gpu_is_reported_once_and_not_assigned_again() -> None:
    reported_texts: list[str] = []
    assigner = GpuAssigner((H200, OTHER), reported_texts.append)
    sick = assigner.take(SPEC)
    assigner.give_up(sick, "it cannot count")
    assigner.give_up(sick, "it cannot count")
    assert reported_texts == [quarantined(gpu_of(sick.environment), "it cannot count")]
    healthy = assigner.take(SPEC)
    assert gpu_of(healthy.environment) != gpu_of(sick.environment)
    assigner.give_up(healthy, "neither can this")
    with pytest.raises(GpuUnavailable):
        assigner.take(SPEC)


def test_a_gpu_with_an_xid_that_fails_the_canary_is_not_assigned() -> None:
    reported_texts: list[str] = []
    checked: list[str] = []

    def canary(gpu: RealGpu) -> Healthy | Sick:
        checked.append(gpu.uuid)
        return Sick(reason="the canary gave no answer")

    events = FakeXidSource(Xid(uuid=H200.uuid, code=79), Xid(uuid="GPU-of-others", code=79))
    assigner = GpuAssigner((H200, OTHER), reported_texts.append, XidMonitor((H200, OTHER), lambda: events, canary))
    assert [gpu_of(assigner.take(SPEC).environment) for _ in range(2)] == [OTHER, OTHER]
    assert checked == [H200.uuid]
    reported = f"{H200.uuid} reported Xid 79: the GPU has fallen off the bus"
    assert reported_texts == [quarantined(H200, f"{reported}, and the canary gave no answer")]


@pytest.mark.parametrize(("code", "asks"), [(31, 0), (79, 1), (9999, 1)])
def test_the_canary_runs_unless_a_kernel_is_to_blame_for_the_xid(code: int, asks: int) -> None:
    checked: list[RealGpu] = []

    def canary(gpu: RealGpu) -> Healthy | Sick:
        checked.append(gpu)
        return Healthy()

    monitor = XidMonitor((H200,), lambda: FakeXidSource(Xid(uuid=H200.uuid, code=code)), canary)
    assigner = GpuAssigner((H200,), print, monitor)
    assert gpu_of(assigner.take(SPEC).environment) == H200
    assert checked == [H200] * asks


def test_the_canary_runs_on_every_gpu_if_an_unknown_one_is_lost() -> None:
    def canary(gpu: RealGpu) -> Healthy | Sick:
        return Healthy() if gpu == OTHER else Sick(reason="the canary failed: no such device")

    events = FakeXidSource(Xid(uuid=H200.uuid, code=31), Xid(uuid=LOST, code=79))
    monitor = XidMonitor((H200, OTHER), lambda: events, canary)
    ((gpu, reason),) = monitor.sick()
    assert (gpu, reason) == (
        H200,
        "a GPU that is lost reported Xid 79: the GPU has fallen off the bus, and the canary failed: no such device",
    )


def test_without_events_or_a_canary_every_gpu_stays_in_use() -> None:
    def no_source() -> FakeXidSource:
        raise MissingPart("nvidia-ml-py is not here")

    def cannot_ask(_: RealGpu) -> Healthy | Sick:
        raise MissingPart("torch is not here")

    assert XidMonitor((H200,), no_source).sick() == ()
    assert XidMonitor((OTHER,), lambda: FakeXidSource(Xid(uuid=H200.uuid, code=79))).sick() == ()
    assert XidMonitor((H200,), lambda: FakeXidSource(Xid(uuid=H200.uuid, code=79)), cannot_ask).sick() == ()
