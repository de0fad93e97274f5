"""How a reference is called."""

from pathlib import Path

import torch

from harness.checks.answer import Answer, ArgumentForm, CodePlace
from harness.checks.reference import Reference

FUNCTIONS = """
import torch

def gradient(x):
    x = x.detach().requires_grad_()
    loss = (x * x).sum()
    return torch.autograd.grad(loss, x, create_graph=True)
"""


def test_a_reference_may_compute_gradients_itself(tmp_path: Path) -> None:
    file = tmp_path / "functions.py"
    file.write_text(FUNCTIONS)
    place = CodePlace(file=str(file), module="", name="gradient")
    reference = Reference(Answer(candidate=place, reference=place, arguments=(ArgumentForm(tensor="x"),)))
    with torch.no_grad():
        reference.work({"x": torch.ones(3)}, {})
        (returned,) = reference.defined({"x": torch.ones(3)}, {})
    assert (returned.tolist(), returned.requires_grad) == ([2.0, 2.0, 2.0], False)
