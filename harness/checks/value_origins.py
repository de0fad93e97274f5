"""Where the values of a candidate's outputs come from: functions of torch, memory of others, or kernels.

It looks at bytes alone: those of the tensors that functions of torch return, and of the memory that launches get and
leave.  So it does not matter by which way a value came there.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch.overrides import TorchFunctionMode

from harness.checks.answer import OriginFault
from harness.checks.kept_outputs import bytes_of
from harness.engines.torch.torch_seam import plain_torch, tree_leaves
from harness.execution.execution_hooks import launch_watchers

Sample = npt.NDArray[np.float32]

MOST_BYTES = 1 << 28
"""The memory for copies of what launches get and leave, in one call; beyond it, further storages are not compared."""
SAMPLED = 32
"""How many elements of a tensor are remembered."""
CLOSE, CLOSE_IN_FEW_BITS = 1e-3, 2e-2
"""A kernel that changes an element by a smaller share copies it; the second is for types of 16 bits and fewer."""
KEPT_SHARE = 0.9
"""An output of which a kernel leaves a larger share as it was is none that it computed."""


class ValueOrigins(TorchFunctionMode):
    """Follows one call of a candidate.

    Of each tensor it remembers a few elements, so many other calls of torch hide nothing.  Views, and results in the
    memory of an argument, are not computed by torch.
    """

    def __init__(self) -> None:
        super().__init__()
        self._computed: dict[int, list[Sample]] = {}
        """Elements of what others than kernels computed, by the number of all elements."""
        self._before: dict[int, torch.Tensor] = {}
        """The bytes of each storage, by its address, before any launch stored to it."""
        self._after: dict[int, torch.Tensor] = {}
        """Those after the latest launch that stored to it."""
        self._bytes = 0
        self._was_ended = False
        """True if the candidate made launches unseen."""

    def __enter__(self) -> Self:
        launch_watchers.append(self)
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        self._was_ended = self not in launch_watchers
        launch_watchers.clear()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function, and remember its result."""
        returned = func(*args, **(kwargs or {}))
        with plain_torch():
            before = {_memory(value) for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)}
            for each in returned if isinstance(returned, tuple | list) else (returned,):
                if isinstance(each, torch.Tensor) and each.numel() > 1 and _memory(each) not in before:
                    self._note(each)
        return returned

    def before(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Remember what a launch gets and no launch has stored."""
        with plain_torch():
            for tensor in tensors.values():
                if _memory(tensor) not in self._after:
                    self._note(tensor)
                    self._keep(self._before, tensor)

    def after(self, tensors: Mapping[str, torch.Tensor], stored: Collection[str]) -> None:
        """Remember what a launch leaves."""
        with plain_torch():
            for name in stored:
                if name in tensors:
                    self._keep(self._after, tensors[name])

    def faults(self, outputs: Mapping[str, torch.Tensor], inputs: Mapping[str, torch.Tensor]) -> Iterator[OriginFault]:
        """Yield what is wrong with the origin of the outputs, for inputs as they were."""
        if self._was_ended:
            yield OriginFault.UNSEEN
        given = [(value.numel(), _sample(value)) for value in inputs.values()]
        varied = [output for output in outputs.values() if output.numel() > 1 and not is_constant(output)]
        if not varied or len(varied) < len(outputs):
            return
        if all(self._is_copied(output) and not _is_among(output, given) for output in varied):
            yield OriginFault.COPIED
        if any(self._is_changed(output) for output in varied):
            yield OriginFault.CHANGED
        if all(self._is_kept(output, given) for output in varied):
            yield OriginFault.KEPT

    def _note(self, tensor: torch.Tensor) -> None:
        if tensor.numel() > 1:
            self._computed.setdefault(tensor.numel(), []).append(_sample(tensor))

    def _is_copied(self, output: torch.Tensor) -> bool:
        known = self._computed.get(output.numel())
        return known is not None and bool(_are_close(np.stack(known), _sample(output), output.dtype).any())

    def _keep(self, kept: dict[int, torch.Tensor], tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        known = kept.get(address)
        if known is None or len(known) != storage.nbytes():
            if self._bytes + storage.nbytes() > MOST_BYTES:
                return
            self._bytes += storage.nbytes()
        elif kept is self._before:
            return
        kept[address] = torch.empty(0, dtype=torch.uint8).set_(storage).clone()

    def _is_changed(self, output: torch.Tensor) -> bool:
        """Return True if the output's bytes differ from those that the latest launch left there."""
        left = self._as_in(self._after, output)
        return left is not None and bytes_of(left) != bytes_of(output)

    def _is_kept(self, output: torch.Tensor, given: Collection[tuple[int, Sample]]) -> bool:
        """Return True if most of the output, without zeros, was there before the first launch, and is no input's."""
        before = self._as_in(self._before, output)
        if before is None or _memory(output) not in self._after or is_constant(before) or _is_among(before, given):
            return False
        same = (before == output.detach()) & (before != 0)
        return bool(same.sum() > KEPT_SHARE * output.numel())

    @staticmethod
    def _as_in(kept: Mapping[int, torch.Tensor], output: torch.Tensor) -> torch.Tensor | None:
        """Return the output as it was in kept bytes of its storage."""
        whole = kept.get(_memory(output))
        if whole is None or len(whole) != output.untyped_storage().nbytes():
            return None
        typed = torch.empty(0, dtype=output.dtype)
        return typed.set_(whole.untyped_storage(), output.storage_offset(), output.shape, output.stride())


def is_constant(value: torch.Tensor) -> bool:
    """Return True if all elements are equal."""
    return bool((value == value.reshape(-1)[0]).all())


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _sample(tensor: torch.Tensor) -> Sample:
    """Return elements at equal distances, the first and the last among them, whatever the shape and the layout."""
    places = torch.linspace(0, max(tensor.numel() - 1, 0), SAMPLED, dtype=torch.float64).long()
    chosen = torch.unravel_index(places, tensor.shape) if tensor.dim() else ()
    return tensor.detach()[chosen].to(torch.float32).reshape(-1).expand(SAMPLED).numpy().copy()


def _is_among(tensor: torch.Tensor, known: Collection[tuple[int, Sample]]) -> bool:
    alike = [sample for count, sample in known if count == tensor.numel()]
    return bool(alike) and bool(_are_close(np.stack(alike), _sample(tensor), tensor.dtype).any())


def _are_close(known: npt.NDArray[np.float32], sample: Sample, dtype: torch.dtype) -> npt.NDArray[np.bool_]:
    """Return for each known sample whether all its elements are those of another, up to errors that a case allows."""
    share = CLOSE if dtype is torch.float32 or not dtype.is_floating_point else CLOSE_IN_FEW_BITS
    size = np.nan_to_num(np.abs(sample), posinf=0.0).max()
    close = np.isclose(known, sample, share, share * float(size) / SAMPLED, equal_nan=True)
    return np.logical_and.reduce(close, axis=1)
