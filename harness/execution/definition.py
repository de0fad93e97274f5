"""The reference of an op: outputs and gradients of its definition in any type, from the same rounded inputs."""

import opcode
import traceback
from collections.abc import Mapping
from typing import Any, cast

import torch

from harness.engines.torch.torch_seam import is_zeros_without_memory
from harness.execution.array_functions import wide
from harness.execution.inputs import detached
from harness.execution.result_forms import OutputsDiffer, Tensors, forms, named
from harness.execution.suite_arguments import arguments_for
from harness.execution.tolerance import Array
from harness.model.case import Case
from harness.model.op import Op


class Undefined(Exception):
    """The op has no definition, or one that is still to be written."""


def reference(
    op: Op, case: Case, inputs: Mapping[str, torch.Tensor | None], cotangents: Tensors, dtype: torch.dtype
) -> Tensors:
    """Return outputs and wanted gradients of the op's definition in `dtype`, from the case's rounded inputs.

    Raises:
        OutputsDiffer: the definition has other outputs than the op, by names or shapes of `cotangents`.
        Undefined: there is no definition.
    """
    copies = {
        name: None if value is None else detached(value, dtype if value.is_floating_point() else value.dtype)
        for name, value in inputs.items()
    }
    leaves = {name: copy.requires_grad_() for name in op.wanted_gradients(case) if (copy := copies[name]) is not None}
    try:
        returned = op.reference(**arguments_for(op.reference, copies, op.settings(case)))
    except NotImplementedError as error:
        if _is_still_to_be_written(error):
            raise Undefined from None
        raise
    outputs = _check_outputs(cotangents, returned)
    differentiable = {name: output for name, output in outputs.items() if output.requires_grad}
    results = dict(outputs)
    if leaves and differentiable:
        computed = gradients(
            differentiable,
            leaves,
            {name: detached(cotangents[name], output.dtype) for name, output in differentiable.items()},
        )
        results |= with_zeros(computed, leaves)
    return {name: value.detach() for name, value in results.items()}


def _is_still_to_be_written(error: NotImplementedError) -> bool:
    """Return True if a statement of the definition raised the error, as in a draft, and no operator of torch."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    is_statement = opcode.opname[frame.f_code.co_code[frame.f_lasti]] == "RAISE_VARARGS"
    return is_statement and "/torch/" not in frame.f_code.co_filename


def arrays(results: Tensors, *, as_tensors: bool = False) -> dict[str, Array]:
    """Return the results in float64, as arrays of NumPy or as tensors where they are."""
    return {name: wide(value, as_tensor=as_tensors) for name, value in results.items()}


def gradients(outputs: Tensors, leaves: Tensors, cotangents: Tensors) -> dict[str, torch.Tensor | None]:
    """Return the gradient `d:x` of each leaf x; None if no output depends on it."""
    returned = torch.autograd.grad(
        tuple(outputs.values()), tuple(leaves.values()), tuple(cotangents[name] for name in outputs), allow_unused=True
    )
    typed = cast("tuple[torch.Tensor | None, ...]", returned)  # torch's stubs ignore allow_unused
    return {f"d:{name}": _with_memory(gradient) for name, gradient in zip(leaves, typed, strict=True)}


def _with_memory(gradient: torch.Tensor | None) -> torch.Tensor | None:
    """Return a gradient with a storage: autograd may return zeros that have none, as from `torch.sgn`."""
    if gradient is None or not is_zeros_without_memory(gradient):
        return gradient
    return torch.zeros_like(gradient)


def with_zeros(computed: Mapping[str, torch.Tensor | None], leaves: Tensors) -> Tensors:
    """Return the gradients with zeros in the place of None."""
    return {
        name: torch.zeros_like(leaves[name.removeprefix("d:")]) if gradient is None else gradient
        for name, gradient in computed.items()
    }


def _check_outputs(returned: Tensors, references: Any) -> Tensors:
    """Return the definition's outputs by name, if the op returned outputs of equal names and shapes.

    Cotangents may stand for what the op returned: they have the same names and shapes.
    """
    outputs = named(references)
    shapes, defined = ({name: value.shape for name, value in each.items()} for each in (returned, outputs))
    if shapes != defined:
        raise OutputsDiffer(forms(references))
    return outputs
