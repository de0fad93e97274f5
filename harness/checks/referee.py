"""The referee: compares kept outputs of a candidate with the reference, in a process that never calls the candidate.

A candidate that changes the harness inside its own worker can make that worker report anything.  The referee's process
makes the inputs of a case again from the seed, and computes the reference.  The tolerance is that of a search, with two
differences.  The referee does not know with which precision a kernel multiplies, so products may be as coarse as TF32.
And it leaves twice the room.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.checks.answer import Answer
from harness.checks.kept_outputs import key_of, read_outputs
from harness.checks.reference import defined_by
from harness.engines.torch.torch_seam import plain_torch
from harness.execution.compare import Noted
from harness.execution.compare import compare as compared
from harness.execution.monte_carlo import Jitter
from harness.execution.result_forms import Tensors, named
from harness.execution.tolerance import Expected, Truth, error_of, tolerance_of
from harness.model.product_precision import product_epsilon
from harness.model.run import Role

ROOM = 2.0
"""The factor of a search's tolerance."""
SAMPLES = 4
"""Runs of the reference with random rounding."""
COARSEST = "tf32"
"""The precision of products in float32."""


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
        moved = _moved(answer, double, sizes, next((v.dtype for v in plain.values() if v.is_floating_point()), None))
        for name, expected in truth.items():
            _compare(name, got[name], expected, eager[name], [each[name] for each in moved])


def _moved(
    answer: Answer, inputs: Mapping[str, Any], sizes: Mapping[str, int], dtype: torch.dtype | None
) -> list[Tensors]:
    """Return what the reference computes with random rounding of this type."""
    if dtype is None:
        return []
    products = product_epsilon([COARSEST]) if dtype is torch.float32 else 0.0
    unit = torch.finfo(dtype if dtype.itemsize > 1 else torch.bfloat16).eps
    moved: list[Tensors] = []
    for seed in range(SAMPLES):
        with Jitter(unit, seed, products=products, terms=True):
            moved.append(named(defined_by(answer, {name: value.clone() for name, value in inputs.items()}, sizes)))
    return moved


def _compare(name: str, got: torch.Tensor, expected: torch.Tensor, eager: torch.Tensor, moved: list[Any]) -> None:
    if got.dtype is not eager.dtype and not (got.is_floating_point() and eager.is_floating_point()):
        raise RefereeDisagrees(f"{name} has elements of {got.dtype}, and the reference's are {eager.dtype}")
    truth = Truth.of(_wide(expected))
    rounded = [_wide(each) for each in moved]
    room = Expected(
        role=Role.OUTPUT,
        truth=truth,
        in_range=np.isfinite(_wide(eager)),
        may_overflow=not all(np.isfinite(each).all() for each in rounded),
        baseline=error_of([_wide(eager)], truth),
        rounding=error_of(rounded or [truth.values], truth),
        samples=len(rounded),
        checks_noise=False,
    )
    result = compared(
        name, got, room, tolerance_of(room, got.dtype, ROOM), Noted(sketch_seed=None, has_error_map=False)
    )
    worst = max(result.whole, result.worst_tile, key=lambda measure: measure.ratio)
    if not worst.ratio <= ROOM or result.nonfinite:
        at = list(worst.index)
        raise RefereeDisagrees(f"{name}{at} is {worst.got:g} where the reference gives {worst.expected:g}")


def _wide(values: torch.Tensor) -> Any:
    return values.detach().to(torch.float64).numpy()
