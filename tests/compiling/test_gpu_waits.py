"""At first few cases have the compilers for themselves, and later the waits of GPUs are added up."""

import pytest

from harness.compiling import gpu_waits
from harness.compiling.gpu_waits import HEAD_START, HeadStart, IdleTime


def test_cases_after_the_first_wait_for_the_end_of_the_head_start() -> None:
    start, begun = HeadStart(), list[int]()
    numbers = list(range(HEAD_START + 2))
    for number in numbers:
        start.admit(lambda number=number: begun.append(number))
    assert begun == numbers[:HEAD_START]
    start.end()
    assert begun == numbers


def test_after_the_head_start_all_cases_begin_at_once() -> None:
    start, begun = HeadStart(), list[int]()
    start.end()
    start.wait(60.0)
    for number in range(HEAD_START + 2):
        start.admit(lambda number=number: begun.append(number))
    assert begun == list(range(HEAD_START + 2))


def test_a_gpu_waits_for_no_compiler_until_it_has_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 80, 10))  # another ten seconds at each look
    monkeypatch.setattr(gpu_waits, "monotonic", lambda: next(now))
    idle = IdleTime(count=1)
    idle.change_compiling(+1)
    assert idle.share() == 0
    idle.begin()
    idle.change_compiling(-1)  # ten seconds at the compiler
    idle.change_running(+1)
    idle.change_running(-1)  # ten seconds on the GPU
    idle.begin()
    assert idle.share() == 0.5
