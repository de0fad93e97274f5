"""Drafts from the calls of a test: dims, types, options and references, without running anything."""

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.drafts.called_draft import draft_of_calls
from harness.drafts.seen_calls import ArgumentKind, SeenArgument, SeenCall, SeenTest, load, store
from harness.errors import UsageError

HEADER = """
import torch
import torch.nn.functional as F
from my_library import loss, norm


def ref_norm(x, w, eps=1e-6):
    return x


def test_it(T, D):
    x = torch.randn(T, D)
    w = torch.randn(D)
"""


def tensor(*shape: int, dtype: str = "float32", **more: Any) -> SeenArgument:
    strides = tuple(int(size) for size in range(len(shape)))
    return SeenArgument(kind=ArgumentKind.TENSOR, shape=shape, strides=strides, dtype=dtype, **more)


def scalar(value: Any) -> SeenArgument:
    return SeenArgument(kind=ArgumentKind.SCALAR, scalar=value)


def call(written: str = "", **arguments: Any) -> SeenCall:
    plain = {name: one if isinstance(one, SeenArgument) else scalar(one) for name, one in arguments.items()}
    names = dict(part.split("=") for part in written.split()) if "=" in written else {}
    return SeenCall(
        test="test_it.py::test_it[1]",
        module="my_library",
        name="norm",
        file="/x/my_library.py",
        folder="",
        arguments=plain,
        called_as="norm",
        written=names or {name: name for name in plain},
    )


def declared(text: str, name: str) -> str:
    """Return the source of one argument of the decorator."""
    tree = ast.parse(text)
    (decorator,) = (one for one in ast.walk(tree) if isinstance(one, ast.Call) and ast.unparse(one.func) == "op")
    return next((ast.unparse(one.value) for one in decorator.keywords if one.arg == name), "")


def definition(text: str) -> list[str]:
    """Return the statements of the reference."""
    *_, function = (one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef))
    return [ast.unparse(one) for one in function.body]


@pytest.fixture
def draft(tmp_path: Path) -> Any:
    def write(body: str, *calls: SeenCall) -> str:
        file = tmp_path / "test_it.py"
        file.write_text(HEADER + "".join(f"    {line}\n" for line in body.splitlines()), encoding="utf-8")
        seen = SeenTest(test="test_it.py::test_it", calls=calls)
        return str(draft_of_calls(seen, file, tmp_path / "suites/it.py"))

    return write


def test_axes_that_always_agree_become_one_dim(draft: Any) -> None:
    first, second = call(x=tensor(3, 64), w=tensor(64)), call(x=tensor(7, 32), w=tensor(32))
    text = draft("", first, second)
    assert declared(text, "dims") == "{'B': tokens(256), 'D': width(64)}"
    assert declared(text, "inputs") == "{'x': tensor('B', 'D', grad=False), 'w': tensor('D', grad=False)}"


def test_equal_sizes_of_one_call_stay_two_dims(draft: Any) -> None:
    text = draft("", call(x=tensor(4, 4), w=tensor(4)))
    assert declared(text, "inputs") == "{'x': tensor('B', 'D', grad=False), 'w': tensor('D', grad=False)}"


def test_products_and_multiples_are_arithmetic(draft: Any) -> None:
    calls = [
        call(x=tensor(t, h, d), y=tensor(t, h * d), z=tensor(t, 2 * d))
        for t, h, d in [(3, 2, 16), (5, 4, 8), (5, 3, 9)]
    ]
    text = draft("", *calls)
    assert "'y': tensor('B', 'T*D', grad=False)" in declared(text, "inputs")
    assert "'z': tensor('B', '2*D', grad=False)" in declared(text, "inputs")


def test_numbers_of_a_call_are_dims_or_options(draft: Any) -> None:
    calls = [call(x=tensor(t, 16), length=t, eps=eps, causal=True) for t, eps in [(9, 1e-5), (12, 1e-6)]]
    text = draft("", *calls)
    assert declared(text, "options") == "{'eps': (1e-05, 1e-06), 'causal': (True,)}"
    assert "library_function(x=x, length=B, eps=eps, causal=causal)" in text


def test_inputs_that_were_none_are_optional(draft: Any) -> None:
    text = draft("", call(x=tensor(3, 8), w=tensor(8)), call(x=tensor(4, 9), w=None))
    assert declared(text, "inputs").endswith("'w': tensor('D', optional=True, grad=False)}")


def test_types_are_those_of_the_case_or_fixed(draft: Any) -> None:
    calls = [call(x=tensor(3, 8, dtype=kind), w=tensor(8, requires_grad=True)) for kind in ("bfloat16", "float16")]
    text = draft("", *calls)
    assert declared(text, "dtypes") == "(DType.BF16, DType.FP16)"
    assert declared(text, "inputs").endswith("'w': tensor('D', dtype=DType.FP32)}")


def test_integers_have_a_limit_and_boundaries_are_segments(draft: Any) -> None:
    calls = [
        call(
            x=tensor(n, v),
            y=tensor(n, dtype="int64", high=v - 1),
            cu=tensor(3, dtype="int32", high=n, rises=True),
            keep=tensor(n, dtype="bool"),
        )
        for n, v in [(9, 100), (12, 50)]
    ]
    inputs = declared(draft("", *calls), "inputs")
    assert "'y': integers('B', high='D')" in inputs
    assert "'cu': segments('B', 'T', dtype='int32')" in inputs
    assert "'keep': integers('B', high=2, dtype='bool')" in inputs


@pytest.mark.parametrize(
    ("strides", "contiguous"),
    [(((64, 1), (64, 1)), "True"), (((64, 1), (70, 1)), "'rows'"), (((64, 1), (1, 4)), ""), (((64, 1), (0, 1)), "")],
)
def test_the_memory_that_a_test_passes_is_what_a_draft_demands(
    draft: Any, strides: tuple[tuple[int, ...], ...], contiguous: str
) -> None:
    calls = [call(x=replace(tensor(4, 64), strides=each)) for each in strides]
    text = draft("", *calls)
    assert declared(text, "contiguous") == contiguous
    assert ("# guessed: what memory the library demands" in text) == bool(contiguous)


def test_pads_and_the_order_of_integers_are_guessed_from_all_calls(draft: Any) -> None:
    slots: dict[str, Any] = {"dtype": "int64", "high": 7, "is_distinct": True, "has_distinct_rows": True}
    calls = [
        call(
            slots=tensor(8, low=low, **slots),
            experts=tensor(8, 2, dtype="int64", high=7, has_distinct_rows=True, is_ascending=True),
            few=tensor(2, **slots),
        )
        for low in (0, -1)
    ]
    inputs = declared(draft("", *calls), "inputs")
    assert "'slots': integers('D', high='D', ignore=-1, distinct=True)" in inputs
    assert "'experts': integers('D', 'B', high='D', distinct='rows', ascending=True)" in inputs
    assert "'few': integers('B', high='D')" in inputs


def test_ranges_of_numbers_and_sums_of_sizes_are_guessed_from_all_calls(draft: Any) -> None:
    calls = [
        call(
            x=tensor(n, 64, smallest=-3.0, largest=2.5),
            beta=tensor(n, 64, smallest=0.1, largest=0.9),
            g=tensor(n, 64, smallest=-4.0, largest=-0.1),
            dt=tensor(n, 64, smallest=0.1, largest=7.0),
            p=tensor(n, 64, smallest=0.0, largest=0.5, sums_to_one=True),
            ones=tensor(64, smallest=1.0, largest=1.0),
            sizes=tensor(4, dtype="int32", high=n - 1, total=n),
            lengths=tensor(4, dtype="int32", high=n - 1, total=7),
        )
        for n in (9, 12)
    ]
    text = draft("", *calls)
    inputs = declared(text, "inputs")
    assert {name: part for name, _, part in re.findall(r"'(\w+)': tensor\((.*?)(?:, draw=Draw.(\w+))?\)", inputs)} == {
        "x": "",
        "beta": "UNIT",
        "g": "LOG_UNIT",
        "dt": "POSITIVE",
        "p": "SHARES",
        "ones": "",
    }
    assert "'sizes': sizes('T', 'B', dtype='int32')" in inputs
    assert "'lengths': integers('T', high='B', dtype='int32')" in inputs
    assert "# guessed: the range of beta, g, dt, p" in text
    assert "# guessed: the sum of sizes" in text


@pytest.mark.parametrize(
    ("body", "statements"),
    [
        (
            "expected = ref_norm(x.double(), w.detach())\ntorch.testing.assert_close(norm(x, w).float(), expected)",
            ["from test_it import ref_norm", "return ref_norm(x, w)"],
        ),
        (
            "x_ref = x.clone().requires_grad_()\ny = norm(x, w)\nassert torch.allclose(y, F.rms_norm(x_ref, (64,), w))",
            ["import torch.nn.functional as F", "return F.rms_norm(x, (D,), w)"],
        ),
        ("y, _ = norm(x, w)\nz, _ = ref_norm(x, w)\nassert_close('y', z, y, 0.1)", None),
        ("y, state = norm(x, w)\nassert torch.equal(state, x @ w)", ["return x @ w"]),
    ],
)
def test_the_reference_is_what_the_test_compares_with(draft: Any, body: str, statements: list[str] | None) -> None:
    text = draft(body, call(x=tensor(3, 64), w=tensor(64)))
    assert definition(text) == (statements or ["from test_it import ref_norm", "return ref_norm(x, w)"])


def test_one_of_several_results_is_returned_if_only_it_is_compared(draft: Any) -> None:
    text = draft("y, state = norm(x, w)\nassert torch.equal(state, x @ w)", call(x=tensor(3, 64), w=tensor(64)))
    assert "return library_function(x=x, w=w)[1]" in text


@pytest.mark.parametrize(
    "body",
    [
        "norm(x, w)",
        "y = norm(x, w)\nassert torch.allclose(y, torch.randn(3, 64))",
        "y = norm(x, w)\nassert torch.allclose(y, Layer(64).weight * x)",
        "y = norm(x, w)\ny.sum().backward()\nassert torch.allclose(x.grad, w)",
        "ref = x\nref = ref * 2\nassert torch.allclose(norm(x, w), ref)",
    ],
)
def test_a_reference_that_cannot_be_read_is_still_to_be_written(draft: Any, body: str) -> None:
    text = draft(body, call(x=tensor(3, 64), w=tensor(64)))
    assert definition(text) == ["raise NotImplementedError('the definition of norm in differentiable torch')"]


def test_calls_of_a_test_are_read_by_its_name_with_and_without_parameters(tmp_path: Path) -> None:
    seen = call(x=tensor(3, 64))
    store([seen], ("lib==1",), tmp_path)
    assert load("test_it.py::test_it", tmp_path) == SeenTest(
        test="test_it.py::test_it", libraries=("lib==1",), calls=(seen,)
    )
    assert load("test_it.py::test_it[1]", tmp_path).calls == (seen,)
    with pytest.raises(UsageError, match=r"unknown test .*\[2\].*did you mean"):
        load("test_it.py::test_it[2]", tmp_path)
    with pytest.raises(UsageError, match="did you mean test_it"):
        load("test_it.py::test_i", tmp_path)
