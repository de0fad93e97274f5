"""Assignment of GPUs to the processes of a pool, and quarantine of sick GPUs."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.engines.cuda.gpus.assignment import Assignment, Quarantine
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.errors import GpuUnavailable
from tests.engines.cuda.samples import several

ONE, TWO, THREE = several(3)


def quiet() -> Quarantine:
    return Quarantine(report=lambda _: None)


def test_processes_get_gpus_in_turn() -> None:
    assignment = Assignment((ONE, TWO, THREE))
    assert [assignment.take() for _ in range(5)] == [ONE, TWO, THREE, ONE, TWO]


def test_a_replacement_process_gets_the_free_gpu() -> None:
    assignment = Assignment((ONE, TWO, THREE))
    for _ in range(4):
        assignment.take()
    assignment.give_back(TWO)
    assert assignment.take() == TWO


def test_a_gpu_that_was_never_taken_cannot_be_given_back() -> None:
    with pytest.raises(ValueError, match="was given back and never taken"):
        Assignment((ONE,)).give_back(ONE)


def test_a_gpu_in_quarantine_is_skipped() -> None:
    assignment = Assignment((ONE, TWO, THREE), quiet())
    taken = assignment.take()
    assignment.quarantine(ONE, "wrong products")
    assert [assignment.take() for _ in range(3)] == [TWO, THREE, TWO]
    assignment.give_back(taken)
    assert (assignment.take(), assignment.healthy) == (THREE, (TWO, THREE))


def test_without_healthy_gpus_the_error_states_the_reasons() -> None:
    assignment = Assignment((ONE, TWO), quiet())
    assignment.quarantine(TWO, "no answer within 90 s")
    assignment.quarantine(ONE, "wrong products")
    with pytest.raises(
        GpuUnavailable, match=rf"no healthy GPU is left: {TWO.uuid}: no answer within 90 s; {ONE.uuid}: wr"
    ):
        assignment.take()


def test_an_assignment_needs_a_gpu() -> None:
    with pytest.raises(GpuUnavailable, match="lease one first"):
        Assignment(())


def test_threads_share_gpus_evenly() -> None:
    assignment = Assignment((ONE, TWO, THREE))

    def take_many(_: int) -> list[RealGpu]:
        return [assignment.take() for _ in range(300)]

    with ThreadPoolExecutor(4) as threads:
        taken = [gpu for part in threads.map(take_many, range(4)) for gpu in part]
    assert [taken.count(gpu) for gpu in (ONE, TWO, THREE)] == [400, 400, 400]


def test_a_quarantine_is_reported_once_with_the_first_reason() -> None:
    reported: list[str] = []
    quarantine = Quarantine(report=reported.append)
    quarantine.add(ONE, "wrong products")
    quarantine.add(ONE, "something later")
    assert (ONE in quarantine, TWO in quarantine) == (True, False)
    assert quarantine.reasons == ((ONE.uuid, "wrong products"),)
    assert reported == [
        f"{ONE} is in quarantine for this session: wrong products. Its cases go to other GPUs; no kernel is blamed"
    ]
