"""Where the values of a candidate's outputs come from: kernels, torch's operators, or other code.

It looks at bytes alone: those of what operators of torch return, and of the memory that launches get and leave.  So it
does not matter by which way a value came there.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch.overrides import TorchFunctionMode

from harness.checks.answer import OriginFault
from harness.checks.kept_outputs import bytes_of
from harness.checks.torch_work import arithmetic_of, name_of
from harness.engines.torch.torch_seam import (
    OperatorMode,
    plain_torch,
    schema_of,
    tree_leaves,
    without_dispatch_modes,
)
from harness.execution.execution_hooks import launch_watchers
from harness.execution.poison import PATTERNS

Sample = npt.NDArray[np.float32]
Values = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MOST_BYTES = 1 << 30
"""The memory for copies of what launches get and leave, in one call; beyond it, origins are not known."""
SAMPLED = 32
"""How many elements of a tensor are remembered."""
CLOSE, CLOSE_IN_FEW_BITS = 1e-3, 2e-2
"""A kernel that changes an element by a smaller share copies it; the second is for types of 16 bits and fewer."""
MADE_SHARE = 0.5
"""Of an output, kernels must have made at least this share."""
FOUND_SHARE = 0.9
"""An output of which a larger share is among what others computed is a copy."""
LOOKED_UP = 256
"""How many elements of an output are looked up."""
LEAST_ALIKE = 16
"""An output with fewer distinct values says nothing by them."""
SMALL = 64
"""Tensors of so few elements may come from anywhere: sizes, factors, tables."""
POISON = (
    *(word for dtype in (torch.float64, torch.int64) for word in divmod(PATTERNS[dtype], 1 << 32)),
    *(PATTERNS[dtype] for dtype in (torch.float32, torch.int32)),
    *(PATTERNS[dtype] * 0x1_0001 for dtype in (torch.bfloat16, torch.float16, torch.int16)),
)
"""Words of fresh memory."""
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers by their bytes: so elements are compared in one step."""
IMPORTS = frozenset({"lift_fresh", "lift_fresh_copy"})
"""Operators by which `torch.tensor` brings numbers from Python."""


class ValueOrigins(OperatorMode):
    """Follows one call of a candidate."""

    def __init__(self, given: Iterable[torch.Tensor] = (), left: dict[int, Sample] | None = None) -> None:
        """`given` are the tensors that the candidate has before the call: inputs and weights.

        `left` is what operators left in memory, in earlier calls too; it is continued.
        """
        super().__init__()
        self._given = {_memory(tensor): _sample_of_storage(tensor) for tensor in given}
        self._left: dict[int, Sample] = {} if left is None else left
        """A sample of the storage, by its address, as operators of torch left it."""
        self._fresh: set[int] = set()
        """Storages that operators allocated, and that nothing but the harness's poison has filled."""
        self._born: set[int] = set()
        """Storages to which operators wrote in this call."""
        self._computed: list[torch.Tensor] = []
        """What others than kernels computed."""
        self._after: dict[int, torch.Tensor] = {}
        """The bytes of each storage, by its address, as the latest launch left it."""
        self._before: dict[int, torch.Tensor] = {}
        """Those before the launch under way."""
        self._first: dict[int, torch.Tensor] = {}
        """Those before the first launch."""
        self._made: dict[int, torch.Tensor] = {}
        """Which bytes a launch changed and nothing else since."""
        self._held: list[torch.UntypedStorage] = []
        """What launches got, so that no other tensor is allocated at its address."""
        self._bytes = 0
        self.work = Counter[str]()
        """The arithmetic of torch's operators."""
        self._host_reads = _HostReads()
        self._has_elsewhere = False
        self._was_ended = False
        """True if the candidate made launches unseen."""

    def begin_backward(self, cotangents: Iterable[torch.Tensor]) -> None:
        """Go on with the backward pass of the same call, which is given the cotangents; work and reads count anew."""
        self._given |= {_memory(tensor): _sample_of_storage(tensor) for tensor in cotangents}
        self.work = Counter[str]()
        self._host_reads.numbers = 0

    def __enter__(self) -> Self:
        launch_watchers.append(self)
        self._host_reads.__enter__()
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        self._host_reads.__exit__(kind, error, at)
        self._was_ended = self not in launch_watchers
        launch_watchers.clear()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the operator, and remember its results."""
        kwargs = kwargs or {}
        taken = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        name = name_of(func)
        written = _written(func, args, kwargs)
        for tensor in taken:
            if _memory(tensor) not in written:
                self._look_at(tensor)
        returned = func(*args, **kwargs)
        work = arithmetic_of(func, args, kwargs, returned)
        if work:
            self.work[name] += round(work)
        before = {_memory(tensor) for tensor in taken} - written
        for each in returned if isinstance(returned, tuple | list) else (returned,):
            if isinstance(each, torch.Tensor) and _memory(each) not in before:
                self._note_result(each, name, is_computed=bool(work))
        return returned

    def before(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Remember what a launch gets."""
        with plain_torch(), without_dispatch_modes():
            self._before = {}
            for tensor in tensors.values():
                self._look_at(tensor)
                storage = tensor.untyped_storage()
                address = storage.data_ptr()
                if address in self._before or not (address in self._first or self._may_keep(storage)):
                    continue
                self._held.append(storage)
                now = _whole(storage)
                left = self._after.get(address)
                if left is not None and len(left) == len(now):
                    # What others changed since is not the kernels' any more.
                    self._made[address] &= ~_differing(left, now, tensor.element_size())
                self._before[address] = now.clone()
                self._first.setdefault(address, self._before[address])

    def after(self, tensors: Mapping[str, torch.Tensor], stored: Collection[str]) -> None:
        """Remember what a launch leaves."""
        with plain_torch(), without_dispatch_modes():
            for tensor in (tensors[name] for name in stored if name in tensors):
                storage = tensor.untyped_storage()
                address = storage.data_ptr()
                before = self._before.get(address)
                if before is None or len(before) != storage.nbytes():
                    continue
                now = _whole(storage)
                made = self._made.get(address)
                if made is None or len(made) != len(now):
                    made = torch.zeros(len(now), dtype=torch.bool)
                self._made[address] = made | _differing(before, now, tensor.element_size())
                self._after[address] = now.clone()

    def faults(
        self, outputs: Mapping[str, torch.Tensor], inputs: Mapping[str, torch.Tensor]
    ) -> Iterator[tuple[OriginFault, bool]]:
        """Yield what is wrong with the origin of the outputs, and whether chance may do that; `inputs` as they were."""
        of_call = {
            OriginFault.UNSEEN: self._was_ended,
            OriginFault.ELSEWHERE: self._has_elsewhere,
            OriginFault.READ: self._host_reads.numbers > SMALL,
            OriginFault.UNCOMPARED: self._bytes > MOST_BYTES,
        }
        yield from ((fault, False) for fault, is_seen in of_call.items() if is_seen)
        given = [(value.numel(), _sample(value)) for value in inputs.values()]
        for output in outputs.values():
            if not output.numel() or _is_among(output, given):
                continue
            may_be_chance = output.numel() <= SMALL
            if self._is_copied(output):
                yield OriginFault.COPIED, may_be_chance
            if self._is_changed(output):
                yield OriginFault.CHANGED, may_be_chance
            first = _as_in(self._first, output)
            if not {_memory(output)} & (self._born | self._first.keys()):
                yield OriginFault.EARLIER, may_be_chance
            elif self._made_share(output) < MADE_SHARE and not (first is not None and _is_among(first, given)):
                yield OriginFault.KEPT, may_be_chance

    # --- what others left --------------------------------------------------------------------------------------------

    def _note_result(self, result: torch.Tensor, name: str, *, is_computed: bool) -> None:
        address = _memory(result)
        self._fresh.discard(address)
        if name in IMPORTS and result.numel() > SMALL:
            self._has_elsewhere = True
        if "empty" in name or name == "resize_":
            self._fresh.add(address)
        self._left[address] = _sample_of_storage(result)
        self._born.add(address)
        if is_computed and self._may_keep(result.untyped_storage()):
            self._computed.append(result.detach().clone())

    def _look_at(self, tensor: torch.Tensor) -> None:
        """Notice a tensor whose values neither a kernel nor an operator of torch left there."""
        address = _memory(tensor)
        if self._is_left_by_launch(tensor):
            return
        now = _sample_of_storage(tensor)
        known = self._given.get(address, self._left.get(address))
        if known is not None and np.array_equal(known, now, equal_nan=True):
            return
        if address in self._fresh and (tensor.itemsize == 1 or _is_poison(now)):  # memory of one byte has no poison
            return
        self._has_elsewhere = self._has_elsewhere or tensor.numel() > SMALL
        if self._may_keep(tensor.untyped_storage()):
            self._computed.append(tensor.detach().clone())

    def _is_left_by_launch(self, tensor: torch.Tensor) -> bool:
        left = self._after.get(_memory(tensor))
        return left is not None and torch.equal(left, _whole(tensor.untyped_storage()))

    def _may_keep(self, storage: torch.UntypedStorage) -> bool:
        """Return True if there is memory for a copy, and count it."""
        self._bytes += storage.nbytes()
        return self._bytes <= MOST_BYTES

    # --- outputs -----------------------------------------------------------------------------------------------------

    def _is_copied(self, output: torch.Tensor) -> bool:
        """Return True if nearly all values are those of one tensor that others computed, wherever they stand in it."""
        if not self._computed:
            return False
        values = _values(output)
        wanted = _telling(values)
        if len(values) == 1 and values[0] != np.rint(values[0]):
            return any(_values(other)[0] == values[0] for other in self._computed if other.numel() == 1)
        if not len(wanted):
            alike = [other for other in self._computed if other.numel() == output.numel() and not is_constant(other)]
            return output.numel() > 1 and _is_among(output, [(other.numel(), _sample(other)) for other in alike])
        return any(_holds(other, output, values, wanted) for other in self._computed)

    def _is_changed(self, output: torch.Tensor) -> bool:
        """Return True if the output's bytes differ from those that the latest launch left there."""
        left = _as_in(self._after, output)
        return left is not None and bytes_of(left) != bytes_of(output)

    def _made_share(self, output: torch.Tensor) -> float:
        """Return the share of elements that kernels made, without zeros, which may have been there before."""
        made = _as_in(self._made, output, torch.uint8)
        if made is None:
            return 0.0 if self._bytes <= MOST_BYTES else 1.0
        counts = output.detach().reshape(-1) != 0
        return float(made.reshape(-1)[counts].double().mean()) if bool(counts.any()) else 1.0


class _HostReads(TorchFunctionMode):
    """Counts the floating-point numbers that host code reads: what it computes from them may return as a number."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function, and count what it hands to the host."""
        if func in _READS and args[0].is_floating_point():
            self.numbers += args[0].numel()
        return func(*args, **(kwargs or {}))


_READS = frozenset(
    {
        torch.Tensor.tolist,
        torch.Tensor.numpy,
        torch.Tensor.__array__,
        torch.Tensor.item,
        torch.Tensor.__float__,
    }
)


def is_constant(value: torch.Tensor) -> bool:
    """Return True if all elements are equal."""
    return bool((value == value.reshape(-1)[0]).all())


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _whole(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def _differing(old: torch.Tensor, new: torch.Tensor, size: int) -> torch.Tensor:
    """Return a mask of the bytes of all elements of which any byte differs."""
    differs = torch.empty(len(old), dtype=torch.bool)
    whole = len(old) // size * size
    differs[whole:] = old[whole:] != new[whole:]
    if word := WORDS.get(size):
        elements = old[:whole].view(word) != new[:whole].view(word)
    else:
        elements = (old[:whole] != new[:whole]).view(-1, size).any(dim=1)
    differs[:whole].view(-1, size)[:] = elements[:, None]
    return differs


def _written(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> set[int]:
    """Return the storages into which a call of an operator writes."""
    written = set[int]()
    for at, argument in enumerate(schema_of(func).arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[at] if at < len(args) else kwargs.get(argument.name)
            written |= {_memory(leaf) for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)}
    return written


def _as_in(kept: Mapping[int, torch.Tensor], output: torch.Tensor, dtype: torch.dtype | None = None) -> Any:
    """Return the output as it was in kept bytes of its storage; with `uint8`, where any byte of a mask is set."""
    whole = kept.get(_memory(output))
    if whole is None or len(whole) != output.untyped_storage().nbytes():
        return None
    if dtype is None:
        typed = torch.empty(0, dtype=output.dtype)
        return typed.set_(whole.untyped_storage(), output.storage_offset(), output.shape, output.stride())
    size = output.element_size()
    mask = whole[: len(whole) // size * size]
    word = WORDS.get(size)
    elements = mask.view(word) != 0 if word else mask.view(-1, size).any(dim=1)
    return elements.as_strided(output.shape, output.stride(), output.storage_offset())


def _sample(tensor: torch.Tensor) -> Sample:
    """Return elements at equal distances, the first and the last among them, whatever the shape and the layout."""
    places = torch.linspace(0, max(tensor.numel() - 1, 0), SAMPLED, dtype=torch.float64).long()
    chosen = torch.unravel_index(places, tensor.shape) if tensor.dim() else ()
    return tensor.detach()[chosen].to(torch.float32).reshape(-1).expand(SAMPLED).numpy().copy()


def _sample_of_storage(tensor: torch.Tensor) -> Sample:
    """Return bytes of the whole storage at equal distances, in words of four bytes."""
    words = _whole(tensor.untyped_storage())
    words = words[: len(words) // 4 * 4].view(torch.int32)
    if not len(words):
        return np.zeros(0, np.float32)
    places = torch.linspace(0, len(words) - 1, SAMPLED, dtype=torch.float64).long()
    return words[places].numpy().view(np.float32).copy()


def _is_poison(sample: Sample) -> bool:
    return bool(np.isin(sample.view(np.uint32), POISON).all())


def _is_among(tensor: torch.Tensor, known: Collection[tuple[int, Sample]]) -> bool:
    alike = [sample for count, sample in known if count == tensor.numel()]
    if not alike or tensor.numel() < 2:
        return False
    sample, share = _sample(tensor), _closeness(tensor.dtype)
    size = np.nan_to_num(np.abs(sample), posinf=0.0).max()
    close = np.isclose(np.stack(alike), sample, share, share * float(size) / SAMPLED, equal_nan=True)
    return bool(np.logical_and.reduce(close, axis=1).any())


def _closeness(dtype: torch.dtype) -> float:
    return CLOSE if dtype is torch.float32 or not dtype.is_floating_point else CLOSE_IN_FEW_BITS


def _values(tensor: torch.Tensor) -> Values:
    return tensor.detach().to(torch.float64).reshape(-1).numpy()


def _telling(values: Values) -> Values:
    """Return some values that hardly any other computation gives; none if the tensor has too few of them."""
    finite = values[np.isfinite(values) & (values != np.rint(values))]
    distinct = np.unique(finite)
    if len(distinct) < LEAST_ALIKE or len(finite) < len(values) / 2:
        return distinct[:0]
    return distinct[np.linspace(0, len(distinct) - 1, min(LOOKED_UP, len(distinct))).astype(int)]


def _holds(other: torch.Tensor, output: torch.Tensor, values: Values, wanted: Values) -> bool:
    """Return True if the other tensor has the output's values: the same set up to rounding, or each of them exactly."""
    if other.numel() < len(values) * FOUND_SHARE or not (other.is_floating_point() or other.is_complex()):
        return False
    theirs = _values(other)
    if len(theirs) == len(values):
        share = _closeness(output.dtype)
        ours, sorted_theirs = np.sort(np.nan_to_num(values)), np.sort(np.nan_to_num(theirs))
        close = np.isclose(ours, sorted_theirs, share, share * float(np.abs(wanted).max()) / SAMPLED)
        return bool(close.mean() > FOUND_SHARE)
    if output.itemsize < 4:  # so few numbers exist in the type that a larger tensor has them all by chance
        return False
    found = np.isin(wanted.astype(np.float32), theirs.astype(np.float32))
    return bool(found.mean() > FOUND_SHARE)
