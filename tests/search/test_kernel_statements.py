"""Executable lines are those that make code, and executed ones follow from the operations of a build."""

import textwrap

import pytest

from harness.search.kernel_statements import functions_of

KERNEL = '''
import triton
import triton.language as tl

WIDTH = 4


@triton.jit
def kernel(x, out, n, bias, BT: tl.constexpr, HAS_BIAS: tl.constexpr, IS_RMS: tl.constexpr, EXACT: "tl.constexpr"):
    """Not a line."""
    tl.static_assert(BT > 1)
    BLOCKS: tl.constexpr = tl.cdiv(BT, WIDTH)
    at = tl.program_id(0) * BT + tl.arange(0, BT)  # at
    name = at
    if HAS_BIAS:
        shift = tl.load(bias + at)  # shift
    value = tl.load(  # load
        x + at,
        mask=at < n,
    )
    if HAS_BIAS and not IS_RMS:
        value += shift  # shifted
        value = value * 2  # twice
    elif EXACT:
        value = tl.exp(value)  # exact
    if n > 3:  # many
        value = tl.sqrt(value)  # root
        if n == 9:  # nine
            return
        value = value + 1  # after nine
    else:
        value = -value  # few
    for turn in tl.static_range(BLOCKS):
        value += turn * at  # unrolled
    for turn in range(n):  # loop
        value += turn  # turn
    tl.store(out + at, value)  # store


class Other:
    @staticmethod
    @triton.jit(noinline=True)
    def device(x, FLAG: tl.constexpr):
        if FLAG:
            y = x + 1  # flag
            return y
        return x * 2  # no flag


def host(x):
    return x + 1  # host
'''
TEXT = textwrap.dedent(KERNEL)
NUMBERS = {
    comment: number
    for number, line in enumerate(TEXT.splitlines(), 1)
    if (comment := line.partition("  # ")[2])
}  # fmt: skip
COMMENTS = {number: comment for comment, number in NUMBERS.items()}
FUNCTIONS = {function.name: function for function in functions_of(TEXT)}


def executed(function: str, *seen: str, beyond: int = 0) -> set[str]:
    lines = FUNCTIONS[function].executed(frozenset(NUMBERS[comment] + beyond for comment in seen))
    return {COMMENTS[line] for line in lines}


def test_statements_without_code_are_no_executable_lines() -> None:
    own = {comment for comment in NUMBERS if comment not in {"flag", "no flag", "host"}}
    assert {COMMENTS[line] for line in FUNCTIONS["kernel"].executable} == own
    assert {COMMENTS[line] for line in FUNCTIONS["device"].executable} == {"flag", "no flag"}


def test_kernels_are_known_by_their_decorator() -> None:
    assert {name for name, function in FUNCTIONS.items() if function.is_jit} == {"kernel", "device"}


ALWAYS = {"at", "load", "many"}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ((), set[str]()),
        (("at",), ALWAYS),
        (("store",), {*ALWAYS, "loop", "store"}),
        (("few",), {*ALWAYS, "few"}),
        (("root",), {*ALWAYS, "root", "nine"}),
        (("after nine",), {*ALWAYS, "root", "nine", "after nine"}),
        (("turn",), {*ALWAYS, "loop", "turn", "store"}),
        (("exact",), {*ALWAYS, "exact"}),
    ],
)
def test_what_a_program_gets_past_is_executed(seen: tuple[str, ...], expected: set[str]) -> None:
    assert executed("kernel", *seen) == expected


def test_an_operation_on_any_line_of_a_statement_counts() -> None:
    assert executed("kernel", "load", beyond=2) == ALWAYS


def test_a_condition_on_constants_comes_out_alike_everywhere() -> None:
    """The compiler has removed the load of the bias here, or its use there."""
    assert executed("kernel", "twice") == {*ALWAYS, "shift", "shifted", "twice"}
    assert executed("kernel", "shift") == {*ALWAYS, "shift"}


def test_both_ways_of_a_device_function_are_executed_if_both_are_called() -> None:
    assert executed("device", "flag") == {"flag"}
    assert executed("device", "no flag") == {"no flag"}
    assert executed("device", "flag", "no flag") == {"flag", "no flag"}


def test_a_file_that_is_no_python_has_no_functions() -> None:
    assert functions_of("def (") == ()
