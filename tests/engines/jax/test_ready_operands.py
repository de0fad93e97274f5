"""Operands that are in memory before an executable runs, read from its text."""

import pytest

from harness.engines.jax.ready_operands import ready_operands

HEAD = "HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[8]{0})->f32[8]{0}}\n\n"


def entry(*lines: str) -> str:
    return "\n".join((HEAD, "ENTRY %main.1 (x.1: f32[8]) -> f32[8] {", *(f"  {line}" for line in lines), "}", ""))


def called(operand: str, number: int = 7, *, target: str = "target") -> str:
    return (
        f'%call.{number} = f32[8]{{0}} custom-call({operand}), custom_call_target="{target}", '
        f"operand_layout_constraints={{f32[8]{{0}}}}, api_version=API_VERSION_TYPED_FFI, "
        f"backend_config={{call = {number} : ui64}}"
    )


PARAMETER = '%x.1 = f32[8]{0} parameter(0), metadata={op_name="x"}'


@pytest.mark.parametrize(
    ("before", "operand", "ready"),
    [
        ((), "%x.1", True),
        (("%c = f32[8]{0} constant({0, 3, 6, 9, 12, 15, 18, 21})",), "%c", True),
        (("%b = f32[8]{0} bitcast(%x.1)",), "%b", True),
        (("%b = (f32[8]{0}, s32[]) tuple(%x.1)", "%g = f32[8]{0} get-tuple-element(%b), index=0"), "%g", False),
        (("%copy.3 = f32[8]{0} copy(%x.1)",), "%copy.3", False),
        (("%f = f32[8]{0} fusion(%x.1), kind=kLoop, calls=%fused_computation",), "%f", False),
        (("%f = f32[8]{0} negate(%x.1)", "%b = f32[8]{0} bitcast(%f)"), "%b", False),
    ],
)
def test_parameters_constants_and_views_of_them_are_ready(
    before: tuple[str, ...], operand: str, *, ready: bool
) -> None:
    assert ready_operands(entry(PARAMETER, *before, called(operand)), "target") == {7: (ready,)}


def test_the_result_of_a_call_is_not_ready_for_the_next_one() -> None:
    text = entry(PARAMETER, called("%x.1", 1), called("%call.1, %x.1", 2))
    assert ready_operands(text, "target") == {1: (True,), 2: (False, True)}


def test_the_first_of_equal_calls_is_the_one_that_is_tuned() -> None:
    again = called("%f", 7).replace("%call.7", "%call.8")
    text = entry(PARAMETER, "%f = f32[8]{0} negate(%x.1)", called("%x.1", 7), again)
    assert ready_operands(text, "target") == {7: (True,)}


def test_calls_of_other_targets_are_left_out() -> None:
    assert ready_operands(entry(PARAMETER, called("%x.1", target="another")), "target") == {}


def test_what_a_loop_carries_is_not_ready() -> None:
    body = "\n".join(("%body.1 (p: f32[8]) -> f32[8] {", "  %p = f32[8]{0} parameter(0)", f"  {called('%p')}", "}", ""))
    assert ready_operands(f"{HEAD}{body}\n{entry(PARAMETER)}", "target") == {7: (False,)}
