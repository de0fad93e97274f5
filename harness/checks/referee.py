"""The referee: compares a candidate's kept outputs and gradients with the reference, and never calls the candidate.

A candidate that changes the harness inside its own worker can make that worker report anything.  The referee's process
makes the inputs of a case again from the seed, and computes the reference.  The tolerance is that of a search, with two
differences.  The referee does not know with which precision a kernel multiplies, so products may be as coarse as TF32.
And it leaves twice the room.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.checks.answer import Answer
from harness.checks.joined_backward import Gradients, joined
from harness.checks.kept_outputs import gradients_key, key_of, read_outputs
from harness.checks.reference import defined_by
from harness.engines.torch.torch_seam import plain_torch
from harness.execution.compare import Noted
from harness.execution.compare import compare as compared
from harness.execution.definition import gradients, with_zeros
from harness.execution.inputs import detached
from harness.execution.monte_carlo import Jitter
from harness.execution.result_forms import Tensors, named
from harness.execution.rounding_borders import RandomRounding, neighbours_of
from harness.execution.tolerance import Array, Errors, Expected, Neighbours, Truth, error_of, tolerance_of
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


def compare(answer: Answer, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    """Compare the kept outputs for these inputs.

    Returns outputs whose backward pass compares the kept gradients, if inputs require any; otherwise None.

    Raises:
        OutputsMissing, RefereeDisagrees: as their classes say.
    """
    wanted = tuple(name for name, value in inputs.items() if value.requires_grad) if torch.is_grad_enabled() else ()
    with plain_torch(), torch.no_grad():
        plain = {name: value.detach().contiguous() for name, value in inputs.items()}
        case = _Case(answer, plain, sizes, wanted)
        got = named(_kept(answer, key_of(plain)))
        truth = case.outputs(torch.float64)
        if {name: value.shape for name, value in got.items()} != {name: value.shape for name, value in truth.items()}:
            raise RefereeDisagrees("the outputs have other shapes than the reference's")
        with torch.enable_grad():
            outputs = case.outputs()
        case.compare(got, truth, outputs)
        if not wanted:
            return None
        # Cotangents have the type of the outputs.
        typed = [
            output.to(got[name].dtype) if output.is_floating_point() else output for name, output in outputs.items()
        ]
    returned = typed[0] if tuple(outputs) == tuple(named(typed[0])) else typed
    return joined(returned, [inputs[name] for name in wanted], partial(_compare_gradients, case, tuple(outputs)))


def _compare_gradients(case: "_Case", names: Sequence[str], cotangents: Gradients) -> Gradients:
    """Compare the kept gradients for these cotangents, and return none."""
    with plain_torch(), torch.no_grad():
        passed = {
            name: value.detach().contiguous()
            for name, value in zip(names, cotangents, strict=True)
            if value is not None
        }
        kept = _kept(case.answer, gradients_key(case.inputs, case.wanted, passed.values()))
        got = {f"d:{name}": value for name, value in zip(case.wanted, kept, strict=True)}
        case.compare(got, case.gradients(passed, torch.float64), case.gradients(passed), passed)
    return (None,) * len(case.wanted)


def _kept(answer: Answer, key: str) -> Any:
    returned = read_outputs(Path(answer.folder), key)
    if returned is None:
        raise OutputsMissing("the candidate's process kept no outputs for these inputs")
    return returned


@dataclass(frozen=True, slots=True)
class _Case:
    """The reference with the inputs of one case."""

    answer: Answer
    inputs: Mapping[str, torch.Tensor]
    sizes: Mapping[str, int]
    wanted: tuple[str, ...]
    """The inputs of which there are gradients."""

    def outputs(self, dtype: torch.dtype | None = None) -> Tensors:
        """Return what the reference computes in a type, or in that of the inputs."""
        return named(defined_by(self.answer, self._copies(dtype), self.sizes))

    def gradients(self, cotangents: Tensors, dtype: torch.dtype | None = None) -> Tensors:
        """Return the gradients `d:x` for these cotangents; zeros where no output depends on an input."""
        copies = self._copies(dtype)
        leaves = {name: copies[name] for name in self.wanted}
        with torch.enable_grad():
            outputs = named(defined_by(self.answer, copies, self.sizes))
        typed = {name: detached(value, outputs[name].dtype) for name, value in cotangents.items()}
        return with_zeros(gradients({name: outputs[name] for name in typed}, leaves, typed), leaves)

    def compare(self, got: Tensors, truth: Tensors, eager: Tensors, cotangents: Tensors | None = None) -> None:
        """Compare outputs, or gradients if there are cotangents.

        Raises:
            RefereeDisagrees: as its class says.
        """
        moved = self._moved(cotangents)
        neighbours = {} if cotangents is not None else self._neighbours(got, truth)
        for name, expected in truth.items():
            samples = [each[name] for each in moved]
            wanted = _Wanted(truth=expected, eager=eager[name], moved=samples, neighbours=neighbours.get(name))
            _compare(name, got[name], wanted)

    def _moved(self, cotangents: Tensors | None) -> list[Tensors]:
        """Return what the reference computes with random rounding of the inputs' type."""
        rounding = self._rounding
        if rounding is None:
            return []
        moved: list[Tensors] = []
        for seed in range(SAMPLES):
            with Jitter(rounding.epsilon, seed, products=rounding.products, terms=True):
                double = torch.float64
                moved.append(self.outputs(double) if cotangents is None else self.gradients(cotangents, double))
        return moved

    def _neighbours(self, got: Tensors, truth: Tensors) -> Mapping[str, Neighbours]:
        """Return what right kernels may give for integers, if any differ from the truth."""
        differ = any(
            not value.is_floating_point() and not np.array_equal(_wide(got[name]), _wide(value))
            for name, value in truth.items()
        )
        rounding = self._rounding if differ else None
        return {} if rounding is None else neighbours_of(lambda: self.outputs(torch.float64), rounding)

    @property
    def _rounding(self) -> RandomRounding | None:
        """How far rounding in the inputs' type moves intermediates; None if no input is rounded."""
        dtype = next((value.dtype for value in self.inputs.values() if value.is_floating_point()), None)
        if dtype is None:
            return None
        products = product_epsilon([COARSEST]) if dtype is torch.float32 else 0.0
        return RandomRounding(
            epsilon=torch.finfo(dtype if dtype.itemsize > 1 else torch.bfloat16).eps, products=products
        )

    def _copies(self, dtype: torch.dtype | None) -> Tensors:
        return {
            name: detached(
                value, dtype if dtype is not None and value.is_floating_point() else value.dtype
            ).requires_grad_(name in self.wanted)
            for name, value in self.inputs.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What the reference computes for one result."""

    truth: torch.Tensor
    eager: torch.Tensor
    moved: list[torch.Tensor]
    """With random rounding."""
    neighbours: Neighbours | None
    """For integers that are rounded."""


def _compare(name: str, got: torch.Tensor, wanted: _Wanted) -> None:
    if got.dtype is not wanted.eager.dtype and not (got.is_floating_point() and wanted.eager.is_floating_point()):
        raise RefereeDisagrees(f"{name} has elements of {got.dtype}, and the reference's are {wanted.eager.dtype}")
    truth, eager = Truth.of(_wide(wanted.truth)), _wide(wanted.eager)
    rounded = [_wide(each) for each in wanted.moved]

    def error(values: list[Array]) -> Errors:
        if wanted.neighbours is not None:
            values = [wanted.neighbours.settled(each, truth.values) for each in values]
        return error_of(values, truth)

    room = Expected(
        role=Role.OUTPUT,
        truth=truth,
        in_range=np.isfinite(eager),
        may_overflow=not all(np.isfinite(each).all() for each in rounded),
        baseline=error([eager]),
        rounding=error(rounded or [truth.values]),
        neighbours=wanted.neighbours,
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
