"""Programs share what was compiled only if they are the same."""

from collections.abc import Callable

from harness.engines.torch.inductor.compiled_calls import _identity


def scaled(factor: int) -> Callable[[int], int]:
    def inner(value: int) -> int:
        return value * factor

    def outer(value: int) -> int:
        return inner(value)

    return outer


def recursive() -> Callable[[int], int]:
    def count(value: int) -> int:
        return count(value - 1) if value else 0

    return count


def test_programs_differ_by_what_their_helpers_close_over() -> None:
    assert _identity(scaled(2)) == _identity(scaled(2))
    assert _identity(scaled(2)) != _identity(scaled(3))


def test_a_program_may_call_itself() -> None:
    assert _identity(recursive()) == _identity(recursive())
