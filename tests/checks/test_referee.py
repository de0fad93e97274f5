"""The referee compares kept outputs and gradients, and its process never runs the candidate's code."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from ci.house import module_imports
from harness.checks.answer import Answer, ArgumentForm, CodePlace
from harness.checks.kept_outputs import gradients_key, key_of, send_outputs
from harness.checks.outputs_keeper import OutputsKeeper
from harness.checks.referee import OutputsMissing, RefereeDisagrees, compare

REFERENCE = """
import torch

def reference(x):
    return x.sin()

def quantised(x):
    return (x / 3).round().to(torch.int8)
"""


def test_the_referee_imports_nothing_that_calls_the_candidate() -> None:
    graph = module_imports()
    reached, ahead = set[str](), ["harness.checks.referee"]
    while ahead:
        for module in graph[ahead.pop()] - reached:
            reached.add(module)
            ahead.append(module)
    assert "harness.checks.reference" in reached
    assert "harness.checks.candidate_calls" not in reached


@pytest.mark.parametrize(
    ("share", "outcome"),
    [(1.0, nullcontext()), (1.01, pytest.raises(RefereeDisagrees, match="d:x")), (None, pytest.raises(OutputsMissing))],
)
def test_kept_gradients_are_compared_for_the_cotangents_of_the_case(tmp_path: Path, share: Any, outcome: Any) -> None:
    (tmp_path / "problem.py").write_text(REFERENCE, encoding="utf-8")
    place = CodePlace(file=str(tmp_path / "problem.py"), module="", name="reference")
    x, cotangent = torch.rand(5, 7), torch.rand(5, 7)
    kept = tmp_path / "kept"
    kept.mkdir()
    with OutputsKeeper(kept) as keeper:
        send_outputs(keeper.address, key_of({"x": x}), x.sin())
        if share is not None:
            send_outputs(keeper.address, gradients_key({"x": x}, ["x"], [cotangent]), (x.cos() * cotangent * share,))
    answer = Answer(candidate=place, reference=place, arguments=(ArgumentForm(tensor="x"),), folder=str(kept))
    returned = compare(answer, {"x": x.requires_grad_()}, {})
    with outcome:
        assert torch.autograd.grad(returned, x, cotangent, allow_unused=True) == (None,)


def test_gradients_are_kept_apart_by_the_inputs_that_require_one() -> None:
    inputs, cotangents = {"x": torch.ones(2), "w": torch.ones(2)}, [torch.ones(2)]
    assert len({gradients_key(inputs, wanted, cotangents) for wanted in (("x",), ("w",), ("x", "w"))}) == 3


@pytest.mark.parametrize(
    ("kept", "outcome"),
    [
        ([2, 4, -5], nullcontext()),
        ([3, 4, -5], nullcontext()),
        ([3, 5, -5], pytest.raises(RefereeDisagrees, match=r"y\[1\] is 5 where the reference gives 4")),
        ([1, 4, -5], pytest.raises(RefereeDisagrees, match=r"y\[0\] is 1 where the reference gives 3")),
    ],
)
def test_both_neighbours_of_a_border_of_rounding_are_right(tmp_path: Path, kept: list[int], outcome: Any) -> None:
    (tmp_path / "problem.py").write_text(REFERENCE, encoding="utf-8")
    place = CodePlace(file=str(tmp_path / "problem.py"), module="", name="quantised")
    x = torch.tensor([7.500001, 12.3, -15.2])  # a third of the first is next to 2.5
    (folder := tmp_path / "kept").mkdir()
    with OutputsKeeper(folder) as keeper:
        send_outputs(keeper.address, key_of({"x": x}), torch.tensor(kept, dtype=torch.int8))
    answer = Answer(candidate=place, reference=place, arguments=(ArgumentForm(tensor="x"),), folder=str(folder))
    with outcome:
        compare(answer, {"x": x}, {})
