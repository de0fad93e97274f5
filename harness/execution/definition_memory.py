"""The memory that a case's definition needs, estimated before anything is computed.

The definition runs on tensors without values (torch's `meta` device).  That shows which tensors autograd keeps, and the
largest that is made.
"""

from collections.abc import Mapping
from contextlib import suppress
from math import prod
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from harness.engines.torch.torch_seam import (
    OperatorMode,
    plain_torch,
    storage_key,
    takes_device,
    tree_leaves,
    tree_map_only,
)
from harness.errors import CannotExecute
from harness.execution.inputs import BUILT_DTYPES, TORCH_DTYPES, values_of_input
from harness.execution.integer_inputs import INTEGER_DTYPES
from harness.execution.suite_arguments import arguments_for
from harness.model.case import Case, Scalar
from harness.model.input_spec import Built, Input, Integers, Segments, Sizes, Tensor
from harness.model.op import Op

MIB = 1 << 20
MOST_MIB = 1024
"""A case whose definition needs more memory, in MiB, is not run.

The definition is computed up to a dozen times, with random rounding.  That takes a minute at this size.
"""
LIVE_AT_ONCE = 4
"""Tensors of the largest size that exist at a time, beside those that autograd keeps: operands and moved copies."""
SURELY_SMALL = 1 << 26
"""A case is not estimated if no likely tensor of its definition has so many elements.

An estimate takes milliseconds, but the first one in a process loads torch's shape functions, which takes a second.
"""
MOST_CALLS = 5000
"""An estimate ends after so many calls of torch: a loop over tokens that goes on needs more time than memory."""
META = torch.device("meta")

Setting = tuple[str, tuple[str, ...], tuple[tuple[str, Scalar], ...]]
"""What the memory depends on beside dims: the op, absent inputs and options."""


class DefinitionMemory:
    """Refuses cases whose definitions need too much memory.  It remembers sizes."""

    def __init__(self, most_bytes: int = MOST_MIB * MIB) -> None:
        self.most_bytes = most_bytes
        self._small: dict[Setting, list[Mapping[str, int]]] = {}
        self._large: dict[Setting, list[Mapping[str, int]]] = {}

    def check(self, op: Op, case: Case) -> None:
        """Estimate the case, unless it is surely small.

        Raises:
            CannotExecute: the definition needs more than the bound.
        """
        if not self.allows(op, case):
            raise CannotExecute(f"a definition that needs more than {self.most_bytes // MIB} MiB of memory")

    def allows(self, op: Op, case: Case) -> bool:
        """Return True if the definition needs no more than the bound."""
        if _likely_elements(op, case) < SURELY_SMALL:
            return True
        setting = (case.op, case.absent, tuple(sorted(case.options.items())))
        small = self._small.setdefault(setting, [])
        if any(all(size <= known[name] for name, size in case.dims.items()) for known in small):
            return True
        large = self._large.setdefault(setting, [])
        if case.dims in large:
            return False
        is_allowed = estimated_bytes(op, case) <= self.most_bytes
        (small if is_allowed else large).append(case.dims)
        return is_allowed


def _likely_elements(op: Op, case: Case) -> int:
    """Return the likely number of elements of the largest tensor in a definition.

    Such a tensor has all dims, as the states of all steps do.  Or it has the dims of the largest input and a second dim
    of tokens, as the scores of all pairs of tokens do.
    """
    largest = op.largest_input(case.dims)
    tokens = max((case.dims[name] for name, dim in op.dims.items() if dim.grows), default=1)
    return max(prod(case.dims.values()), largest * tokens)


def estimated_bytes(op: Op, case: Case) -> int:
    """Return about how many bytes the op's definition and its gradients hold at once in float64.

    What follows a step that needs values is not counted, such as a branch on them.
    """
    inputs = {
        name: None if name in case.absent else _without_values(op, case, name, declared)
        for name, declared in op.inputs.items()
    }
    kept = _Kept()
    with plain_torch(), _OnMeta() as on_meta, saved_tensors_hooks(kept.add, lambda saved: saved), suppress(Exception):
        # An error of the suite's own shows when the definition runs with values.
        op.reference(**arguments_for(op.reference, inputs, op.settings(case)))
    return kept.bytes + LIVE_AT_ONCE * on_meta.largest_bytes


def _without_values(op: Op, case: Case, name: str, declared: Input) -> torch.Tensor:
    match declared:
        case Tensor():
            shape = declared.extents(case.dims)
            kind = declared.dtype or case.dtype
            if not kind.is_float:
                return torch.empty(shape, dtype=TORCH_DTYPES[kind], device=META)
            needs_gradient = declared.grad and kind.is_differentiable
            return torch.empty(shape, dtype=torch.float64, device=META, requires_grad=needs_gradient)
        case Integers():
            return torch.empty(declared.extents(case.dims), dtype=INTEGER_DTYPES[declared.dtype], device=META)
        case Built():
            return torch.empty(declared.extents(case.dims), dtype=BUILT_DTYPES[declared.dtype], device=META)
        case Segments() | Sizes():
            return values_of_input(op, case, name, {})  # a few numbers, over which definitions loop


class _Kept:
    """The memory that autograd keeps for the backward pass."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        self._storages[storage_key(storage)] = storage
        return tensor

    @property
    def bytes(self) -> int:
        return sum(storage.nbytes() for storage in self._storages.values())


class _OnMeta(OperatorMode):
    """Makes every new tensor without values, and records the largest."""

    def __init__(self) -> None:
        super().__init__()
        self.largest_bytes = 0
        self._calls = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        self._calls += 1
        if self._calls > MOST_CALLS:
            raise CannotExecute("a long definition without values")
        arguments = dict(kwargs or {})
        tensors = [leaf for leaf in tree_leaves((args, arguments)) if isinstance(leaf, torch.Tensor)]
        is_factory = not tensors and takes_device(func)
        if is_factory or any(tensor.device == META for tensor in tensors):
            args = tree_map_only(torch.Tensor, _to_meta, args)
            if is_factory or arguments.get("device") is not None:
                arguments["device"] = META
        returned = func(*args, **arguments)
        results = [leaf for leaf in tree_leaves(returned) if isinstance(leaf, torch.Tensor)]
        self.largest_bytes = max(self.largest_bytes, *(result.numel() * result.element_size() for result in results), 0)
        return returned


def _to_meta(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.device == META else tensor.to(META)
