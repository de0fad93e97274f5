"""The hung party by what a hardware GPU and threads show."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.execution.flight_recorder import Activity, Edge, FlightEvent
from harness.model.run import HungParty
from harness.workers.supervision.hang_attribution import HangEvidence
from harness.workers.supervision.hang_inspection import gpu_of
from harness.workers.supervision.processes import Thread
from harness.workers.supervision.recorder_reader import Flight
from tests.workers.setting import DEVICE, specs


def events(*steps: tuple[Activity, Edge]) -> Flight:
    return Flight(
        tuple(
            FlightEvent(time_s=float(n), thread=7, kind=kind, edge=edge, subject="spin_kernel", detail="")
            for n, (kind, edge) in enumerate(steps)
        )
    )


def thread(state: str, ticks: int = 0, held_by: str = "") -> tuple[Thread, ...]:
    return (Thread(id=7, state=state, held_by=held_by, ticks=ticks),)


LAUNCHED = events((Activity.LAUNCH, Edge.BEGINS), (Activity.LAUNCH, Edge.ENDS), (Activity.SYNCHRONISE, Edge.BEGINS))
ON_GPU = HangEvidence(flight=LAUNCHED, engine="cuda", utilisation=(100, 100, 100), threads=(thread("R"),) * 3)


def test_a_gpu_that_stays_busy_after_a_launch_hangs() -> None:
    ending = ON_GPU.ending(60.0)
    assert (ending.waiting, ending.launch) == (HungParty.DEVICE, "spin_kernel")
    assert "GPU utilisation 100 %, 100 %, 100 %" in ending.evidence


def test_a_synchronised_launch_does_not_keep_a_shared_gpu_busy() -> None:
    done = events(
        (Activity.LAUNCH, Edge.BEGINS), (Activity.SYNCHRONISE, Edge.BEGINS), (Activity.SYNCHRONISE, Edge.ENDS)
    )
    waits = replace(ON_GPU, flight=done, threads=(thread("S", held_by="futex"),) * 3)
    assert waits.ending(60.0).waiting is HungParty.HOST


def test_a_host_that_synchronises_with_a_shared_gpu_waits_for_the_device() -> None:
    assert replace(ON_GPU, utilisation=(100, 40, 100)).ending(60.0).waiting is HungParty.DEVICE


@pytest.mark.parametrize("utilisation", [(), (100, 0, 100), (0, 0, 3)])
def test_an_intermittent_or_unknown_utilisation_proves_nothing(utilisation: tuple[int, ...]) -> None:
    assert replace(ON_GPU, utilisation=utilisation).ending(60.0).waiting is HungParty.UNKNOWN


def test_work_on_a_gpu_without_a_launch_is_another_process() -> None:
    look = replace(ON_GPU, flight=events((Activity.PHASE, Edge.BEGINS)))
    assert look.ending(60.0).waiting is HungParty.HOST


def test_an_idle_gpu_is_not_the_hung_party() -> None:
    waits = replace(ON_GPU, utilisation=(0, 0, 0), threads=(thread("S", held_by="futex"),) * 3)
    ending = waits.ending(60.0)
    assert (ending.waiting, ending.held_by, ending.launch) == (HungParty.HOST, "futex", "spin_kernel")
    assert replace(waits, threads=(thread("D"),) * 3).ending(60.0).held_by == "state D"
    assert replace(waits, threads=(thread("R"),) * 3).ending(60.0).held_by == ""


def test_a_hang_names_its_phase() -> None:
    steps = [
        FlightEvent(time_s=float(n), thread=7, kind=kind, edge=Edge.BEGINS, subject=subject, detail="")
        for n, (kind, subject) in enumerate(
            [(Activity.PHASE, "forward"), (Activity.PHASE, "reference"), (Activity.LAUNCH, "spin_kernel")]
        )
    ]
    assert replace(ON_GPU, flight=Flight(tuple(steps))).ending(60.0).phase == "reference"
    assert replace(ON_GPU, flight=Flight(())).ending(60.0).phase == ""


def test_a_running_compiler_has_precedence() -> None:
    assert replace(ON_GPU, compilers=("ptxas",)).ending(60.0).waiting is HungParty.COMPILER


def test_the_thread_of_the_last_note_is_the_one_that_waits() -> None:
    both = (Thread(id=1, state="S", held_by="pipe", ticks=0), *thread("S", held_by="futex"))
    look = replace(ON_GPU, utilisation=(0, 0, 0), threads=(both,) * 3)
    assert look.ending(60.0).held_by == "futex"


def test_only_one_whole_gpu_is_identified_by_its_uuid(scratch: Path) -> None:
    def visible(value: str) -> str | None:
        return gpu_of(specs(scratch, environment=(("CUDA_VISIBLE_DEVICES", value),))(DEVICE))

    assert [visible(value) for value in ("GPU-1", "GPU-1,GPU-2", "MIG-1", "0")] == ["GPU-1", None, None, None]
    assert gpu_of(specs(scratch)(DEVICE)) is None
