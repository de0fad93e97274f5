"""Which GPU a process of the pool gets, and what becomes of one that is sick."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.cuda.gpus.assignment import Assignment
from harness.cuda.gpus.inventory import RealGpu
from harness.cuda.gpus.quarantine import Quarantine
from harness.errors import GpuUnavailable
from tests.cuda.samples import several

pytestmark = pytest.mark.once

ONE, TWO, THREE = several(3)


def quiet() -> Quarantine:
    return Quarantine(tell=lambda _: None)


def test_processes_get_gpus_in_turn() -> None:
    assignment = Assignment((ONE, TWO, THREE))
    assert [assignment.take() for _ in range(5)] == [ONE, TWO, THREE, ONE, TWO]


def test_a_process_that_replaces_another_gets_the_gpu_that_became_free() -> None:
    assignment = Assignment((ONE, TWO, THREE))
    for _ in range(4):
        assignment.take()
    assignment.give_back(TWO)
    assert assignment.take() == TWO


def test_what_was_never_taken_cannot_be_given_back() -> None:
    with pytest.raises(ValueError, match="was given back and never taken"):
        Assignment((ONE,)).give_back(ONE)


def test_a_gpu_in_quarantine_is_passed_over() -> None:
    assignment = Assignment((ONE, TWO, THREE), quiet())
    taken = assignment.take()
    assignment.quarantine(ONE, "wrong products")
    assert [assignment.take() for _ in range(3)] == [TWO, THREE, TWO]
    assignment.give_back(taken)
    assert (assignment.take(), assignment.healthy) == (THREE, (TWO, THREE))


def test_when_none_is_left_it_says_why() -> None:
    assignment = Assignment((ONE, TWO), quiet())
    assignment.quarantine(TWO, "no answer within 90 s")
    assignment.quarantine(ONE, "wrong products")
    with pytest.raises(
        GpuUnavailable, match=rf"no healthy GPU is left: {TWO.uuid}: no answer within 90 s; {ONE.uuid}: wr"
    ):
        assignment.take()


def test_there_is_nothing_to_share_out_without_a_gpu() -> None:
    with pytest.raises(GpuUnavailable, match="lease one first"):
        Assignment(())


def test_threads_share_gpus_evenly() -> None:
    assignment = Assignment((ONE, TWO, THREE))

    def take_many(_: int) -> list[RealGpu]:
        return [assignment.take() for _ in range(300)]

    with ThreadPoolExecutor(4) as threads:
        taken = [gpu for part in threads.map(take_many, range(4)) for gpu in part]
    assert [taken.count(gpu) for gpu in (ONE, TWO, THREE)] == [400, 400, 400]


def test_a_quarantine_is_said_once_and_keeps_the_first_reason() -> None:
    said: list[str] = []
    quarantine = Quarantine(tell=said.append)
    quarantine.put(ONE, "wrong products")
    quarantine.put(ONE, "something later")
    assert (ONE in quarantine, TWO in quarantine) == (True, False)
    assert quarantine.reasons == ((ONE.uuid, "wrong products"),)
    assert said == [
        f"{ONE} is in quarantine for this session: wrong products. Its cases go to other GPUs; no kernel is blamed"
    ]
