"""Expressions of Inductor's C++ wrapper are evaluated as C++ evaluates them."""

import pytest

from ci.wrapper_scratch import Integer, UnknownForm, evaluate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("grid_0 * grid_1", 0),  # uint32_t
        ("static_cast<int64_t>(grid_0) * grid_1", 2**32),
        ("grid_0 * grid_1 * 1L", 0),
        ("1L * grid_0 * grid_1", 2**32),
        ("bytes * 256L", 2**31 * 256),
        ("static_cast<int32_t>(2147483648L)", -(2**31)),
        ("(15L + sizes) / 16L", 0),
        ("c10::div_floor_integer(static_cast<int64_t>(sizes), static_cast<int64_t>(16L))", -1),
        ("-sizes / 2 - 1", 6),
    ],
)
def test_expressions_have_the_values_of_cpp(expression: str, value: int) -> None:
    names = {
        "grid_0": Integer(2**16, 32, is_signed=False),
        "grid_1": Integer(2**16, 32, is_signed=False),
        "bytes": Integer(2**31),
        "sizes": Integer(-15),
    }
    assert evaluate(expression, names).value == value


@pytest.mark.parametrize("expression", ["unknown * 2", "a ? b : c", "1 / 0", "sizes.size()", "1 << 3"])
def test_other_expressions_are_refused_by_name(expression: str) -> None:
    with pytest.raises(UnknownForm, match="cannot evaluate"):
        evaluate(expression, {"sizes": Integer(1)})
