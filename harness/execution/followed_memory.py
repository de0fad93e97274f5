"""Memory that nothing has written, followed out of kernels to where torch or the host computes with it.

A call of torch that gets a storage with poison is followed operator by operator.  A copy carries the poison on, as it
is.  An operator that computes element by element loses it, and it is put back.  Any other operator uses it.

Operators that autograd calls by itself are not followed.
"""

import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import resolve_name

from harness.engines.torch.captured_graphs import current_capture
from harness.engines.torch.torch_seam import OperatorMode, plain_torch, schema_of, tree_leaves, without_dispatch_modes
from harness.execution.case_execution import calling_line
from harness.execution.copying_operators import Effect, ElementFlow, flow_of
from harness.execution.exact_operators import kernel_inside
from harness.execution.poison import PATTERNS, SAME_SIZE, Poison
from harness.execution.unwritten_memory import Unwritten, UnwrittenMemory
from harness.model.run import AccessSite, Launch, UnwrittenUse


class FollowedMemory(UnwrittenMemory):
    """Fresh memory whose uses by torch are reported, the first of each allocation."""

    def __init__(self, limit_bytes: int = sys.maxsize) -> None:
        super().__init__(limit_bytes)
        self.on_use: Callable[[UnwrittenUse, Launch | None], None] = lambda *_: None
        """Gets each use, and the launch that stored there last."""
        self._is_paused = False

    @contextmanager
    def paused(self) -> Generator[None]:
        """Follow nothing while the context lasts."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    def report(self, elements: Unwritten, operator: str, *, is_handed_over: bool = False) -> None:
        """Report a use, unless one of the same allocation was reported."""
        if elements.allocation.is_reported:
            return
        elements.allocation.is_reported = True
        store = elements.allocation.last_store
        first = torch.unravel_index(elements.mask.reshape(-1).to(torch.uint8).argmax(), elements.mask.shape)
        use = UnwrittenUse(
            site=AccessSite(
                kernel=store.launch.kernel if store else "",
                launch=store.index if store else 0,
                argument=store.argument if store else "",
                source=elements.allocation.source,
            ),
            operator=operator,
            used_at=calling_line(),
            dtype=str(elements.dtype).removeprefix("torch."),
            shape=tuple(elements.mask.shape),
            cells=int(elements.mask.sum()),
            first_cell=tuple(int(index) for index in first),
            is_handed_over=is_handed_over,
            is_stored_to_copy=store is not None and store.is_to_copy,
            overwritten_at=elements.allocation.overwritten_at,
        )
        self.on_use(use, store.launch if store else None)

    def _call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        # TorchDynamo traces into this call for the parameters of modules, and can read no address.
        if not self._unfinished or self._is_paused or torch.compiler.is_compiling():
            return func(*args, **kwargs)
        if getattr(func, "__name__", "") in _ASK_FOR_NO_ELEMENT or current_capture():
            return func(*args, **kwargs)
        if not self.may_hold_poison(_tensors(args, kwargs)):
            return func(*args, **kwargs)
        name = resolve_name(func) or ""
        if func in _HAND_OVER:
            with plain_torch(), without_dispatch_modes():
                if (elements := self.unwritten(args[0])) is not None:
                    self.report(elements, name, is_handed_over=True)
        with _FollowedCall(self, name):
            return func(*args, **kwargs)


class _FollowedCall(OperatorMode):
    """Follows the operators of one call of torch, or of a call of an operator."""

    def __init__(self, memory: FollowedMemory, function: str) -> None:
        super().__init__()
        self._memory = memory
        self._function = function

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the operator, and carry on or report the elements that nothing has written."""
        kwargs = kwargs or {}
        flow = flow_of(func)
        if flow.effect is Effect.NONE:
            return func(*args, **kwargs)
        if flow.effect is Effect.INSIDE:
            with self:
                return func.redispatch(kernel_inside(func), *args, **kwargs)
        with plain_torch():
            with without_dispatch_modes():
                unwritten = tuple(self._unwritten(func, flow, args, kwargs))
            returned = func(*args, **kwargs)
            results = [leaf for leaf in tree_leaves(returned) if isinstance(leaf, torch.Tensor)]
            for name, elements in unwritten:
                if flow.effect is Effect.USE or name in flow.deciding or not self._carry(elements, flow, results):
                    with without_dispatch_modes():
                        self._memory.report(elements, self._function or str(func))
            return returned

    def _unwritten(
        self, func: Any, flow: ElementFlow, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Iterator[tuple[str, Unwritten]]:
        """Yield what nothing has written of the tensors that the operator reads, with the argument's name."""
        for at, argument in enumerate(schema_of(func).arguments):
            value = args[at] if at < len(args) else kwargs.get(argument.name)
            if argument.name in flow.overwritten or not isinstance(value, torch.Tensor | list | tuple):
                continue
            for tensor in tree_leaves(value):
                if isinstance(tensor, torch.Tensor) and (elements := self._memory.unwritten(tensor)) is not None:
                    yield argument.name, elements

    def _carry(self, elements: Unwritten, flow: ElementFlow, results: list[torch.Tensor]) -> bool:
        """Follow the elements into the results of the operator; return False if those are no copies."""
        is_copied = flow.effect is Effect.COPY
        for result in results:
            if is_copied or (flow.effect is Effect.CONVERT and _has_type_of(result, elements.poison)):
                with without_dispatch_modes():
                    self._memory.keep(result, elements.allocation, elements.poison)
                continue
            pattern = PATTERNS.get(result.dtype)
            if pattern is None:  # of a comparison; a conversion to one byte is not followed
                return flow.effect is Effect.CONVERT
            if not self._put_back(elements, result, Poison(pattern, result.itemsize)):
                return False
        return bool(results)

    def _put_back(self, elements: Unwritten, result: torch.Tensor, poison: Poison) -> bool:
        """Poison the elements of a result that follow from unwritten ones; return False if NaN became a number.

        Integers that are multiplied by zero do not follow from them any more.
        """
        if not self._memory.may_poison(result, poison):
            return True
        mask = elements.mask.expand(result.shape)
        with without_dispatch_modes():
            if not result.is_floating_point():
                mask = mask & (result != 0)
            elif elements.dtype.is_floating_point and not result[mask].isnan().all():
                return False
        # By an operator, so that modes below see who has written there.
        result.view(SAME_SIZE[result.itemsize]).masked_fill_(mask, poison.pattern)
        with without_dispatch_modes():
            self._memory.keep(result, elements.allocation, poison)
        return True


def _has_type_of(result: torch.Tensor, poison: Poison) -> bool:
    return PATTERNS.get(result.dtype) == poison.pattern


def _tensors(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among arguments and in their sequences."""
    for value in (*args, *kwargs.values()):
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, torch.Tensor):
                yield each


_HAND_OVER = frozenset({torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.tolist})
"""Functions that give the host all elements, without an operator."""
_ASK_FOR_NO_ELEMENT = frozenset(
    {
        *("__get__", "__set__", "__delete__", "__repr__", "__str__", "__len__", "__hash__", "__deepcopy__"),
        *("size", "stride", "dim", "ndimension", "numel", "nelement", "element_size", "storage_offset", "data_ptr"),
        *("is_contiguous", "is_floating_point", "is_complex", "is_signed", "untyped_storage", "get_device"),
        *("requires_grad_", "register_hook", "retain_grad", "record_stream", "is_tensor", "is_pinned", "is_shared"),
        *("view", "reshape_as", "view_as", "expand", "transpose", "permute", "unsqueeze", "squeeze", "t", "detach"),
    }
)
"""The names of torch's functions that read no element: questions, views, and printing, which is no use."""
