"""Constants in native code are LLVM literals."""

import pytest

from harness.engines.virtual.native.arith import literal


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0.1, "float", "0x3FB99999A0000000"),
        (0.1, "double", "0x3FB999999999999A"),
        (float("-inf"), "float", "0xFFF0000000000000"),
        (-7, "i32", "-7"),
    ],
)
def test_a_constant_is_a_literal_of_its_type(value: float, kind: str, text: str) -> None:
    assert literal(value, kind) == text
