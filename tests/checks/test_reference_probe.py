"""What a reference accepts beyond its sample: axes of one size become dims of their own where they may differ."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from harness import catalogue, wire
from harness.checks.answer import Answer, CodePlace
from harness.checks.check_suites import write_suite
from harness.checks.sampled_task import SampledTask, SampleOrder
from harness.checks.sampling import read_sample, sample
from harness.execution.inputs import make_inputs
from harness.model.case import Case, DType, ValueDistribution
from harness.suite import load_suite

FUNCTIONS = """
import torch

def product(x, y):
    return x @ y

def attention(q, k, v):
    return torch.softmax(q @ k.mT, -1) @ v

def added(x, y):
    return x + y

def masked(x, y):
    return x * y[: x.shape[0], : x.shape[1]]

def squared(x):
    return x @ x

def one():
    return (torch.randn(32, 32),)

def two():
    return torch.randn(32, 32), torch.randn(32, 32)

def three():
    return tuple(torch.randn(2, 2, 32, 32) for _ in range(3))

def picked(table, index):
    return table[index]

def slots():
    return torch.randn(8, 3), torch.randperm(8)

def binned(x, edges):
    return torch.bucketize(x, edges)

def edges():
    return torch.randn(7, 9).t(), torch.linspace(-2, 2, 6)

def summed(x, bounds):
    return torch.stack([x[a:b].sum(0) for a, b in zip(bounds[:-1], bounds[1:])])

def packed():
    return torch.randn(30, 4), torch.tensor([0, 7, 30])

def scaled(x, scale):
    return x * scale

def factor():
    return torch.randn(6, 5), torch.tensor([0.05])

def apart():
    return [(torch.randn(32, 32), torch.randn(32, 32)), (torch.randn(16, 16), torch.randn(16, 16))]
"""


@pytest.mark.parametrize(
    ("reference", "inputs", "dims"),
    [
        ("product", "two", {("x.0",), ("y.1",), ("x.1", "y.0")}),
        (
            "attention",
            "three",
            {("q.0", "k.0", "v.0"), ("q.1", "k.1", "v.1"), ("q.2",), ("q.3", "k.3"), ("k.2", "v.2"), ("v.3",)},
        ),
        ("added", "two", {("x.0", "y.0"), ("x.1", "y.1")}),
        ("masked", "two", {("x.0", "y.0"), ("x.1", "y.1")}),
        ("squared", "one", {("x.0", "x.1")}),
        ("added", "apart", {("x.0", "x.1", "y.0", "y.1")}),
    ],
)
def test_axes_that_agree_by_chance_become_dims(
    tmp_path: Path, reference: str, inputs: str, dims: set[tuple[str, ...]]
) -> None:
    assert {dim.axes for dim in sampled(tmp_path, reference, inputs).dims} == dims


@pytest.mark.parametrize(
    ("reference", "inputs", "declared"),
    [
        ("picked", "slots", "integers('n8', low=0, high='n8', dtype=\"int64\", distinct=True)"),
        ("binned", "edges", "tensor('n6', grad=True, distinct=True, ascending=True)"),
        ("summed", "packed", "segments('n30', 'n3-1', dtype=\"int64\", may_be_empty=False)"),
        ("scaled", "factor", "tensor('1', grad=True, draw=Draw.POSITIVE)"),
    ],
)
def test_cases_keep_what_the_numbers_of_a_sample_have_in_common(
    tmp_path: Path, reference: str, inputs: str, declared: str
) -> None:
    task = sampled(tmp_path, reference, inputs)
    write_suite(tmp_path / "suite.py", answer_of(tmp_path, reference), task)
    assert f": {declared}" in (tmp_path / "suite.py").read_text()


def test_a_sample_is_kept_with_its_layout(tmp_path: Path) -> None:
    task = sampled(tmp_path, "binned", "edges")
    kept = read_sample(task.sample)
    assert (kept["x"].shape, kept["x"].stride()) == ((9, 7), (1, 9))
    write_suite(tmp_path / "suite.py", answer_of(tmp_path, "binned"), task)
    (op, _) = load_suite(str(tmp_path / "suite.py"), tmp_path)
    case = Case(op=op.id, dims={"n9": 9, "n7": 7, "n6": 6}, dtype=DType.FP32, device=catalogue.find("h200"))
    inputs = make_inputs(op, replace(case, values=ValueDistribution.SAMPLE))
    assert all(torch.equal(value, kept[name]) for name, value in inputs.items() if value is not None)
    assert [value.stride() for value in inputs.values() if value is not None] == [(1, 9), (1,)]


def answer_of(folder: Path, reference: str) -> Answer:
    place = CodePlace(file=str(folder / "functions.py"), module="", name=reference)
    return Answer(candidate=place, reference=place)


def sampled(folder: Path, reference: str, inputs: str) -> SampledTask:
    (folder / "functions.py").write_text(FUNCTIONS)
    answer, result = answer_of(folder, reference), folder / "task.json"
    order = SampleOrder(
        answer=answer,
        inputs=replace(answer.reference, name=inputs),
        result=str(result),
        kept=str(folder / "sample.pt"),
    )
    sample(order)
    task = wire.from_json(result.read_text(), SampledTask)
    assert not task.problem
    return task
