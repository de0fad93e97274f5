"""At first few cases have the compilers for themselves."""

from harness.compiling.gpu_waits import HEAD_START, HeadStart


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
