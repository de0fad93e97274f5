"""Generated code makes the same tensors and functions again."""

import base64
import math
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import catalogue
from harness.execution.inputs import make_inputs
from harness.execution.layouts import lay_out
from harness.execution.poison import PATTERNS
from harness.findings.repro.code_layout import COLUMNS, joined, laid_out, retouched
from harness.findings.repro.op_call import OpResults, call_record
from harness.findings.repro.program_writer import ReproProgram, inner_imports
from harness.findings.repro.reduction_check import argument_code
from harness.findings.repro.sources import Definitions
from harness.findings.repro.tensors import Writing, write
from harness.model.case import Case, DType, GradMode, Layout, ValueDistribution
from harness.model.input_spec import Draw
from harness.model.op import Op
from harness.suite import integers, load_suite, segments, tensor, tokens

ROOT = Path(__file__).resolve().parents[3]
WORLD = {"torch": torch, "base64": base64, "zlib": zlib, "nan": math.nan, "inf": math.inf, "device": "cpu"}


def made_again(tensors: dict[str, torch.Tensor], *, exact: bool = True) -> tuple[dict[str, Any], Writing]:
    writing = Writing(exact=exact)
    write(tensors, writing)
    world: dict[str, Any] = dict(WORLD)
    exec("\n".join(writing.lines), world)  # noqa: S102 - what a reproducer does with them
    return world, writing


def geometry(one: torch.Tensor) -> tuple[object, ...]:
    return one.dtype, tuple(one.shape), tuple(one.stride()), one.storage_offset(), one.untyped_storage().nbytes()


@pytest.mark.parametrize("layout", [one for one in Layout if one is not Layout.EXPANDED])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(3, 5), (40, 7), (9,), (), (2, 3, 5), (2, 3, 4, 5)])
def test_a_tensor_is_made_again_bit_for_bit_with_its_layout(
    layout: Layout, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    x = lay_out(torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype), layout)
    world, _ = made_again({"x": x})
    assert geometry(world["x"]) == geometry(x)
    assert torch.equal(world["x"], x)


def test_large_tensors_are_drawn_with_their_layout() -> None:
    x = lay_out(3 + torch.randn((40, 7), generator=torch.Generator().manual_seed(1)), Layout.STRIDED)
    world, writing = made_again({"x": x}, exact=False)
    assert geometry(world["x"]) == geometry(x)
    assert abs(float(world["x"].mean()) - 3) < 0.5
    assert torch.isnan(world["x_memory"].view(-1)[7:12]).all()
    assert sum(map(len, writing.lines)) < 400


def test_aliases_stay_aliases() -> None:
    x = torch.arange(12.0)
    world, _ = made_again({"x": x, "same": x, "half": x[::2], "bits": x.view(torch.int32)})
    assert world["same"] is world["x"]
    assert world["half"].data_ptr() == world["bits"].data_ptr() == world["x"].data_ptr()
    assert torch.equal(world["bits"], x.view(torch.int32))


def test_unwritten_memory_is_allocated_by_empty() -> None:
    x = torch.tensor([PATTERNS[torch.float32]] * 6, dtype=torch.int32).view(torch.float32)
    x[1:3] = 5
    _, writing = made_again({"x": x})
    assert writing.lines == [
        "x = torch.empty((6,), device=device)",
        "x.view(-1)[[1, 2]] = torch.tensor([5.0, 5.0], device=device)",
    ]


@pytest.mark.parametrize("value", [0.1, 1e30, -0.0, math.inf, 1 / 3])
def test_a_number_is_the_shortest_that_reads_the_same(value: float) -> None:
    x = torch.tensor([value, 1.0], dtype=torch.bfloat16)
    world, writing = made_again({"x": x})
    assert torch.equal(world["x"], x)
    assert len(writing.lines[0]) < 75


def declared(**inputs: Any) -> Op:
    def call(**given: Any) -> Any:
        return given

    dims = {"T": tokens(512)}
    return Op(name="op", suite="none.py", call=call, reference=call, dims=dims, inputs=inputs)


@pytest.mark.parametrize(
    "values", [one for one in ValueDistribution if one not in {ValueDistribution.ZEROS, ValueDistribution.NAN_TAINTED}]
)
@pytest.mark.parametrize("draw", [one for one in Draw if one is not Draw.SHARES])
def test_large_inputs_are_drawn_as_the_harness_draws_them(values: ValueDistribution, draw: Draw) -> None:
    op = declared(x=tensor("T", draw=draw), labels=integers("T", high=9), bounds=segments("T", 4))
    case = Case(
        op="none.py:op", dims={"T": 200}, dtype=DType.BF16, device=catalogue.find("h200"), values=values, seed=7
    )
    record = call_record(op, case, OpResults(), defined=False)
    world: dict[str, Any] = dict(WORLD)
    made = [line for line in record.statements if line.startswith(("x ", "labels ", "bounds "))]
    exec("\n".join(made), world)  # noqa: S102 - what a reproducer does with them
    assert all(torch.equal(world[name], value) for name, value in make_inputs(op, case).items() if value is not None)


@pytest.mark.parametrize(
    ("settings", "required", "results"),
    [
        ({}, {"x", "w"}, {"y", "d:x", "d:w"}),
        ({"frozen": ("x",)}, {"w"}, {"y", "d:w"}),
        ({"frozen": ("w", "x")}, set(), {"y"}),
        ({"grad_mode": GradMode.NO_GRAD}, {"x", "w"}, {"y"}),
    ],
)
@pytest.mark.parametrize("defined", [False, True])
def test_only_wanted_gradients_are_computed_again(
    settings: dict[str, Any], required: set[str], results: set[str], *, defined: bool
) -> None:
    op = declared(x=tensor("T"), w=tensor("T"))
    case = Case(op="none.py:op", dims={"T": 4}, dtype=DType.FP32, device=catalogue.find("h200"), **settings)
    seen = OpResults.of({"y": torch.zeros(4, requires_grad=len(results) > 1)})
    record = call_record(op, case, seen, defined=defined)
    modes: list[tuple[bool, set[str]]] = []

    def call(x: torch.Tensor, w: torch.Tensor, **rest: int) -> torch.Tensor:
        assert rest == {"T": 4}
        modes.append((torch.is_grad_enabled(), {name for name, one in (("x", x), ("w", w)) if one.requires_grad}))
        return x * w

    world: dict[str, Any] = WORLD | {record.name: call, "reference": call, "exact": False}
    body = "\n".join(f"    {line}" for line in record.statements)
    exec(f"def run():\n{body}", world)  # noqa: S102 - what a reproducer does with them
    assert set(world["run"]()) == results
    assert modes == [(case.grad_mode is GradMode.ENABLED, required)]


def test_the_variables_of_a_case_are_set_before_the_imports() -> None:
    plain = ReproProgram(
        docstring='"""A bug."""\n', core="import torch\n\ndef run():\n    ...\n", main="import sys\n\n0\n"
    )
    text = replace(plain, environment=(("DEPTH", "2"), ("FAST", "1"))).text
    variables = 'import os\n\nos.environ["DEPTH"] = "2"\nos.environ["FAST"] = "1"\n\n'
    assert text == plain.text.replace("import sys", f"{variables}import sys", 1)
    compile(text, "repro.py", "exec")


def test_what_functions_import_is_found_to_import_it_in_the_main_thread() -> None:
    core = "import torch\n\ndef run():\n    import fla.ops\n    from fla.utils import f\n\n    return f(fla)\n"
    assert list(inner_imports(core)) == ["fla.ops", "fla.utils"]


def test_an_op_is_written_with_everything_that_it_uses() -> None:
    (op,) = (one for one in load_suite(str(ROOT / "suites/fla/norm.py")) if one.name == "group_norm")
    definitions = Definitions(lambda module: module.startswith("harness_suite_"))
    definitions.add(op.reference, called="reference", undecorated=True)
    assert list(definitions.blocks) == ["EPS", "plus", "times", "over_rms", "over_deviation", "reference"]
    assert definitions.blocks["EPS"] == "EPS = 1e-5"
    assert definitions.blocks["reference"].startswith("def reference(x, weight, bias, residual, G, D):\n")
    assert (definitions.missing, definitions.imports) == ([], {})


def test_a_module_next_to_a_suite_is_inlined() -> None:
    op = load_suite(str(ROOT / "suites/planted/overlapping_store.py"))[0]
    definitions = Definitions(lambda module: module.startswith("harness_suite_"))
    definitions.add(op.call, undecorated=True)
    assert list(definitions.blocks) == ["BLOCK", "double_kernel", "double", "overlapping_store"]
    assert definitions.blocks["overlapping_store"].endswith("return double(x, rows_per_program=8)\n")
    assert definitions.missing == []


def test_long_statements_are_filled_and_definitions_kept_apart() -> None:
    call = f"kernel[(1,)]({', '.join(f'argument_{n}={n}' for n in range(30))})"
    lines = laid_out(call, 1).splitlines()
    assert max(map(len, lines)) <= COLUMNS
    assert "".join(line.strip() + " " for line in lines).replace("( ", "(").replace(" )", ")").strip() == call
    assert joined(["A = 1", "B = 2", "def f():\n    pass"]) == "A = 1\nB = 2\n\n\ndef f():\n    pass"


def test_only_the_generated_function_is_laid_out_again() -> None:
    text = "def kernel(x):  # as it was\n    return (x*2)\n\n\ndef run():\n    kernel[1,](x = 1)\n    return {'x': 1}\n"
    assert retouched(text, "run") == (
        'def kernel(x):  # as it was\n    return (x*2)\n\n\ndef run():\n    kernel[(1,)](x=1)\n    return {"x": 1}\n'
    )


PROGRAM = """
def run(device="cuda"):
    x = torch.zeros((4, 2), device=device)
    y = torch.empty((4,), device=device)
    kernel[(4,)](x=x, y=y, T=4)
    return {"y": y}
"""


@pytest.mark.parametrize(
    ("old", "new", "is_faithful"),
    [
        ("x=x, y=y, T=4", "y=y", True),
        ("    x = torch.zeros((4, 2), device=device)\n", "", True),
        ("(4, 2)", "(4,2)", True),
        ("(4, 2)", "(3, 2)", False),
        ("y=y, T=4", "y=torch.empty((1,), device=device)", False),
    ],
)
def test_a_reduction_may_drop_arguments_but_not_change_them(old: str, new: str, is_faithful: bool) -> None:  # noqa: FBT001 - a column
    assert (argument_code(PROGRAM.replace(old, new)) <= argument_code(PROGRAM)) is is_faithful
