"""Notes of a process survive its death, in order."""

import mmap
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from harness.execution import flight_recorder
from harness.execution.flight_recorder import SLOT_BYTES, SLOTS, Activity, Edge, FlightEvent
from harness.workers.supervision.recorder_reader import Flight, Recorder
from tests.workers.conftest import open_files

CHILD = """
import os, signal, sys
from harness.execution import flight_recorder
flight_recorder.attach(int(sys.argv[1]))
{body}
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.hand_over()
    recorder.close()


def run_to_its_death(recorder: Recorder, body: str) -> tuple[str, ...]:
    """Has a process note, then killed by SIGKILL; the subjects that are left."""
    command = [sys.executable, "-c", CHILD.format(body=body), str(recorder.fd)]
    assert subprocess.run(command, pass_fds=[recorder.fd], check=False).returncode == -signal.SIGKILL
    return tuple(event.subject for event in recorder.since(0).events)


def test_sigkill_loses_no_note(recorder: Recorder) -> None:
    body = "flight_recorder.launching('spin_kernel', (4, 1, 1), 'num_warps: 4').__enter__()"
    assert run_to_its_death(recorder, body) == ("spin_kernel",)
    (event,) = recorder.since(0).events
    assert (event.kind, event.edge, event.detail) == (Activity.LAUNCH, Edge.BEGINS, "grid (4, 1, 1), num_warps: 4")


def test_the_ring_keeps_the_latest_of_many_notes(recorder: Recorder) -> None:
    body = f"for n in range({3 * SLOTS + 7}): flight_recorder.phase(str(n))"
    assert run_to_its_death(recorder, body) == tuple(map(str, range(2 * SLOTS + 7, 3 * SLOTS + 7)))


def test_no_note_of_many_threads_is_lost(recorder: Recorder) -> None:
    body = (
        "from threading import Thread\n"
        "ones = [Thread(target=lambda: [flight_recorder.phase('p') for _ in range(25)]) for _ in range(8)]\n"
        "[one.start() for one in ones]; [one.join() for one in ones]"
    )
    assert len(run_to_its_death(recorder, body)) == 200
    assert len({event.thread for event in recorder.since(0).events}) == 8


def test_notes_of_a_forked_child_are_not_its_parents(recorder: Recorder) -> None:
    body = "flight_recorder.phase('parent')\nif os.fork() == 0: flight_recorder.phase('child'); os._exit(0)\nos.wait()"
    assert run_to_its_death(recorder, body) == ("parent",)


def test_a_half_written_note_is_left_out(recorder: Recorder) -> None:
    run_to_its_death(recorder, "for n in range(1, 5): flight_recorder.phase(str(n))")
    memory = mmap.mmap(recorder.fd, flight_recorder.SIZE)
    memory[3 * SLOT_BYTES + flight_recorder.HEAD.size] ^= 1
    memory.close()
    assert [event.subject for event in recorder.since(0).events] == ["1", "2", "4"]


def test_a_text_that_is_too_long_loses_its_end(recorder: Recorder) -> None:
    (subject,) = run_to_its_death(recorder, "flight_recorder.phase('ä' * 1000)")
    assert subject.startswith("ä" * 100)
    assert len(subject) < SLOT_BYTES


def test_without_a_ring_nothing_happens() -> None:
    with flight_recorder.launching("kernel", (1, 1, 1)), flight_recorder.synchronising():
        flight_recorder.swallowed("kernel", "an error", "BT: 64")


def at(time_s: float, kind: Activity, edge: Edge, subject: str, *, thread: int = 1, detail: str = "") -> FlightEvent:
    return FlightEvent(time_s=time_s, thread=thread, kind=kind, edge=edge, subject=subject, detail=detail)


def test_only_notes_of_the_last_case_count(recorder: Recorder) -> None:
    body = "for name in 'abc':\n  with flight_recorder.running(name): flight_recorder.phase('in ' + name)"
    run_to_its_death(recorder, body)
    events = recorder.since(0).events
    assert [event.subject for event in events] == ["c", "in c", "c"]
    assert recorder.since(events[-1].time_s + 1).events == ()


def test_the_kernel_is_that_of_the_latest_unfinished_activity() -> None:
    begun = (
        at(0, Activity.CALL, Edge.BEGINS, "first"),
        at(1, Activity.LAUNCH, Edge.BEGINS, "first"),
        at(2, Activity.LAUNCH, Edge.ENDS, "first"),
        at(3, Activity.CALL, Edge.ENDS, "first"),
        at(4, Activity.CALL, Edge.BEGINS, "second"),
        at(5, Activity.COMPILE, Edge.BEGINS, "second"),
    )
    assert [Flight(begun[:count]).kernel for count in range(7)] == [
        None,
        "first",
        "first",
        "first",
        None,
        "second",
        "second",
    ]
    assert (Flight(begun).launched, Flight(begun[:1]).launched) == ("first", None)


def test_the_activity_is_what_has_begun_and_not_ended() -> None:
    begun = (
        at(0, Activity.PHASE, Edge.BEGINS, "inputs"),
        at(1, Activity.PHASE, Edge.BEGINS, "forward"),
        at(2, Activity.CALL, Edge.BEGINS, "first"),
        at(3, Activity.COMPILE, Edge.BEGINS, "first"),
        at(5, Activity.COMPILE, Edge.ENDS, "first"),
        at(6, Activity.CALL, Edge.ENDS, "first"),
    )
    assert [Flight(begun[:count]).activity(7.0) for count in range(7)] == [
        "",
        "making inputs for 7 s",
        "calling the op for 6 s",
        "running first for 5 s",
        "compiling first for 4 s",
        "running first for 5 s",
        "calling the op for 6 s",
    ]


def test_a_synchronisation_waits_for_the_kernel_launched_last() -> None:
    events = (
        at(0, Activity.LAUNCH, Edge.BEGINS, "first"),
        at(1, Activity.LAUNCH, Edge.ENDS, "first"),
        at(2, Activity.SYNCHRONISE, Edge.BEGINS, "the device"),
    )
    assert Flight(events).kernel == "first"


def test_a_thread_does_not_end_the_activity_of_another() -> None:
    events = (
        at(0, Activity.LAUNCH, Edge.BEGINS, "backward", thread=2),
        at(1, Activity.LAUNCH, Edge.BEGINS, "forward"),
        at(2, Activity.LAUNCH, Edge.ENDS, "forward"),
    )
    assert Flight(events).kernel == "backward"


def test_events_are_printed_with_the_seconds_since_the_first() -> None:
    events = (
        at(10, Activity.CASE, Edge.BEGINS, "rms_norm T=3"),
        at(10.5, Activity.LAUNCH, Edge.BEGINS, "norm", detail="grid (4, 1, 1)"),
        at(11.25, Activity.SWALLOWED, Edge.ONCE, "norm", detail="PTXASError, for config BT: 64"),
    )
    assert Flight(events).lines() == (
        "+0.000 s  case rms_norm T=3 begins",
        "+0.500 s  launch of norm begins: grid (4, 1, 1)",
        "+1.250 s  autotuner of norm swallowed: PTXASError, for config BT: 64",
    )
    assert Flight(events).swallowed == ("the autotuner of norm swallowed PTXASError, for config BT: 64",)


def test_closing_the_recorder_leaves_no_open_file() -> None:
    before = open_files()
    recorder = Recorder()
    recorder.hand_over()
    recorder.close()
    assert open_files() == before


def test_a_wait_for_torch_names_no_kernel() -> None:
    begun = (
        at(0, Activity.LAUNCH, Edge.BEGINS, "first"),
        at(1, Activity.LAUNCH, Edge.ENDS, "first"),
        at(2, Activity.CALL, Edge.BEGINS, "second"),
        at(3, Activity.SYNCHRONISE, Edge.BEGINS, flight_recorder.EARLIER_WORK),
    )
    waiting = Flight(begun)
    assert (waiting.kernel, waiting.is_waited_for) == (None, False)
    assert waiting.last_in_words == "waiting for what torch works on begins"
