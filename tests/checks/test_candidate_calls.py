"""What a call of a candidate notes about its outputs."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from harness.checks.answer import CONTROL, Answer, ArgumentForm, CodePlace
from harness.checks.candidate_calls import call
from harness.execution.hypothesis_notes import noting

CANDIDATES = """
import torch

def reference(x):
    return x

def from_the_last_column(x):
    return x - x[:, -1:]

def cached(x, kept=[]):
    kept.append(x + 1)
    return kept[0].clone()

def copied(x):
    return torch.empty_like(x).copy_(torch.softmax(x, -1))

def copied_after_others(x):
    for _ in range(1000):
        torch.zeros(1)
    return copied(x)

def small_floats(x):
    return x.to(torch.float8_e4m3fn)
"""
COLUMN = torch.arange(4.0)[:, None]
ROW = torch.arange(4.0)[None]

Notes = Callable[..., list[str]]


@pytest.fixture
def notes_of(tmp_path: Path) -> Notes:
    file = tmp_path / "candidates.py"
    file.write_text(CANDIDATES)

    def notes(name: str, *inputs: torch.Tensor) -> list[str]:
        candidate, reference = (CodePlace(file=str(file), module="", name=function) for function in (name, "reference"))
        answer = Answer(candidate=candidate, reference=reference, arguments=(ArgumentForm(tensor="x"),))
        noted: list[str] = []
        with noting(noted):
            for tensor in inputs:
                call(answer, {"x": tensor.clone()}, {})
        return [note.removeprefix(CONTROL) for note in noted]

    return notes


def test_outputs_of_an_earlier_call_are_repeated(notes_of: Notes) -> None:
    assert "repeated" in notes_of("cached", ROW, ROW + 1)


def test_outputs_that_fit_other_inputs_too_are_not_repeated(notes_of: Notes) -> None:
    assert "repeated" not in notes_of("from_the_last_column", COLUMN, COLUMN + 1)


@pytest.mark.parametrize("name", ["copied", "copied_after_others"])
def test_outputs_that_torch_computed_are_copied_whatever_comes_before(notes_of: Notes, name: str) -> None:
    assert "copied" in notes_of(name, torch.linspace(0.0, 3.0, 100)[None])


def test_outputs_of_small_floats_are_looked_at(notes_of: Notes) -> None:
    assert "repeated" not in notes_of("small_floats", ROW, ROW + 1)
