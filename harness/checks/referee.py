"""The referee: compares kept outputs of a candidate with the reference, in a process that never calls the candidate.

A candidate that changes the harness inside its own worker can make that worker report anything.  The referee's process
makes the inputs of a case again from the seed, and computes the reference.  The comparison is coarse, since the referee
does not know how the kernel rounds.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from harness.checks.answer import Answer
from harness.checks.kept_outputs import key_of, read_outputs
from harness.checks.reference import defined_by
from harness.engines.torch.torch_seam import plain_torch
from harness.execution.result_forms import Tensors, named

COARSE = 0.03
"""The largest error relative to the size of the result, as root mean squares."""
OF_EAGER = 20.0
"""The error may be so many times that of the reference in the case's own type."""
LEAST = 1e-6


class OutputsMissing(Exception):
    """The candidate's worker kept no outputs for these inputs."""


class RefereeDisagrees(Exception):
    """The outputs are not those of the reference, whatever the candidate's worker reported."""


def compare(answer: Answer, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """Compare the kept outputs for these inputs.

    Raises:
        OutputsMissing, RefereeDisagrees: as their classes say.
    """
    with plain_torch(), torch.no_grad():
        plain = {name: value.detach().contiguous() for name, value in inputs.items()}
        returned = read_outputs(Path(answer.folder), key_of(plain))
        if returned is None:
            raise OutputsMissing("the candidate's process kept no outputs for these inputs")
        got = named(returned)
        double = {n: v.to(torch.float64) if v.is_floating_point() else v.clone() for n, v in plain.items()}
        truth = named(defined_by(answer, double, sizes))
        eager = named(defined_by(answer, {name: value.clone() for name, value in plain.items()}, sizes))
        if {name: value.shape for name, value in got.items()} != {name: value.shape for name, value in truth.items()}:
            raise RefereeDisagrees("the outputs have other shapes than the reference's")
        for name, expected in truth.items():
            _compare(name, got[name], expected, eager)


def _compare(name: str, got: torch.Tensor, expected: torch.Tensor, eager: Tensors) -> None:
    wanted = expected.to(torch.float64)
    counts = wanted.isfinite() & eager[name].to(torch.float64).isfinite()
    size = max(_norm(wanted[counts]), LEAST)
    error = _norm(got.to(torch.float64)[counts] - wanted[counts]) / size
    usual = _norm(eager[name].to(torch.float64)[counts] - wanted[counts]) / size
    if not error <= max(COARSE, OF_EAGER * usual):
        raise RefereeDisagrees(f"{name} differs from the reference by {error:.2g} of its size")


def _norm(values: torch.Tensor) -> float:
    return float(values.square().mean().sqrt()) if values.numel() else 0.0
