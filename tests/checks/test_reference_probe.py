"""What a reference accepts beyond its sample: axes of one size become dims of their own where they may differ."""

from pathlib import Path

import pytest

from harness import wire
from harness.checks.answer import Answer, CodePlace
from harness.checks.sampled_task import SampledTask, SampleOrder
from harness.checks.sampling import sample

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
    (file := tmp_path / "functions.py").write_text(FUNCTIONS)
    places = [CodePlace(file=str(file), module="", name=name) for name in (reference, inputs)]
    result = tmp_path / "task.json"
    sample(SampleOrder(answer=Answer(candidate=places[0], reference=places[0]), inputs=places[1], result=str(result)))
    task = wire.from_json(result.read_text(), SampledTask)
    assert (task.problem, {dim.axes for dim in task.dims}) == ("", dims)
