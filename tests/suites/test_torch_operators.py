"""The bench of torch's operators: its list, the shapes that samples choose, and a case of some operators."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from harness import catalogue
from harness.execution.execution import Execution
from harness.model.case import Case, DType, Layout
from harness.model.op import Op
from harness.model.run import Completed
from harness.suite import load_suite

SUITE = Path(__file__).parents[2] / "suites" / "torch" / "operators.py"
LIST = json.loads(SUITE.with_name("operators.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def ops() -> dict[str, Op]:
    return {op.name: op for op in load_suite(str(SUITE))}


def test_the_bench_has_an_op_for_every_operator_of_its_list(ops: dict[str, Op]) -> None:
    assert list(ops) == list(LIST["operators"])
    assert len(ops) >= 150


def test_every_operator_that_is_left_out_has_a_reason() -> None:
    assert all(LIST["left_out"].values())
    assert LIST["left_out"]["linalg_qr"] == "its result is not unique"


def test_what_flag_gems_covers_is_in_the_list() -> None:
    covered = (SUITE.parents[1] / "flag_gems" / "covered.txt").read_text(encoding="utf-8").split()
    assert set(covered) <= set(LIST["operators"])


def test_the_sample_decides_the_shapes(ops: dict[str, Op]) -> None:
    for name, op in ops.items():
        for number, sample in enumerate(LIST["operators"][name]["samples"], 1):
            for at, shape in enumerate(sample["shapes"]):
                extents = op.inputs[f"x{at}"].extents({"sample": number})
                assert extents == (*[1] * (len(extents) - len(shape)), *shape)


@pytest.mark.parametrize("name", ["add", "softmax", "nn_functional_conv2d", "amax", "cat", "__getitem__", "sgn"])
def test_operators_agree_with_themselves_in_float64(ops: dict[str, Op], name: str) -> None:
    for sample in range(1, ops[name].dims["sample"].high + 1):
        case = Case(
            op=ops[name].id,
            dims={"sample": sample},
            dtype=DType.BF16,
            device=catalogue.find("h200"),
            layouts={"x0": Layout.STRIDED, "grad": Layout.EXPANDED},
        )
        ending, results = Execution(nullcontext).run(ops[name], case)
        assert ending == Completed()
        assert results
        assert all(one.whole.ratio <= 1 and one.worst_tile.ratio <= 1 for one in results)
