"""The exact run of torch's operators: each is computed a second time in float64, on exact values.

The real values stay as they are, bit for bit.  Integers, masks and shapes follow the real values.  If exact values
would decide otherwise, the memory of exact values notes a doubt.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from harness.engines.torch.torch_seam import OperatorMode, is_zeros_without_memory, plain_torch
from harness.execution.exact_memory import UNKNOWN, ExactMemory
from harness.execution.exact_operators import ExactOperator, ExactRule, argument, kernel_inside, operator_of

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
CANNOT_COMPUTE = (RuntimeError, ValueError, TypeError, IndexError)
"""What an operator raises that has no kernel for float64, or that rejects exact values."""
_EXACT = {
    **dict.fromkeys((torch.float64, torch.float32, torch.float16, torch.bfloat16), torch.float64),
    **dict.fromkeys((torch.complex128, torch.complex64, torch.complex32), torch.complex128),
}
"""The types of exact values by the types that keep enough of a value.  Narrower ones quantise it."""
_UNFOLLOWED: Any = object()
"""The result of an operator that the exact run cannot follow."""


class ExactTorch(OperatorMode):
    """While active, every operator also computes the exact values of its floating-point results."""

    def __init__(self, memory: ExactMemory) -> None:
        super().__init__()
        self._memory = memory

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operator, then follow it."""
        kwargs = dict(kwargs) if kwargs else {}
        operator = operator_of(func)
        if operator.rule is ExactRule.VIEW:
            return func(*args, **kwargs)
        if operator.rule is ExactRule.INSIDE:
            with self:
                return func.redispatch(kernel_inside(func), *args, **kwargs)
        with plain_torch():
            return _Call(self._memory, operator, func, (args, kwargs)).run()


class _Call:
    """One call of an operator."""

    def __init__(
        self, memory: ExactMemory, operator: ExactOperator, func: Callable[..., Any], arguments: Arguments
    ) -> None:
        self._memory = memory
        self._operator = operator
        self._func = func
        self._args, self._kwargs = arguments
        self._tensors = tuple(tensor for tensor in _leaves(arguments) if isinstance(tensor, torch.Tensor))
        self._written = tuple(_tensors_of(_written(operator, arguments)))
        self._addresses = {_address(tensor) for tensor in self._tensors}
        self._has_floats = any(tensor.is_floating_point() or tensor.is_complex() for tensor in self._tensors)

    def run(self) -> Any:
        """Run the operator and follow it; return its real result."""
        if any(tensor.device.type != "cpu" for tensor in self._tensors):
            return self._call()
        match self._operator.rule:
            case ExactRule.VALUES | ExactRule.SELECTION:
                return self._follow()
            case ExactRule.RANDOM:
                return self._random()
            case ExactRule.NEW | ExactRule.LIFTED:
                return self._take_as_it_is()
            case ExactRule.UNKNOWN:
                returned = self._call()
                self._forget_new(returned)
                for tensor in (*self._written, *_tensors_of(returned)):
                    self._store_tensor(tensor, _UNFOLLOWED)
                return returned
            case ExactRule.BITS:
                returned = self._call()
                if returned.dtype is not self._args[0].dtype and self._has_floats:
                    self._doubt("takes the bits of numbers")
                return returned
            case ExactRule.VIEW | ExactRule.INSIDE:
                raise AssertionError(self._operator)

    def _call(self) -> Any:
        return self._func(*self._args, **self._kwargs)

    def _follow(self) -> Any:
        exact = self._prepared() if self._written else None  # what is written must be read first
        returned = self._call()
        self._forget_new(returned)
        if exact is None and self._has_news(returned):
            exact = self._prepared()
        if exact is not None:
            self._store(returned, exact, self._second(returned, exact))
        return returned

    def _take_as_it_is(self) -> Any:
        returned = self._call()
        for tensor in _tensors_of(returned):
            if _is_in(tensor, self._written) and _is_followed(tensor):  # may lie in a larger storage
                self._memory.write(tensor, tensor.detach().to(torch.float64))
            else:
                self._forget(tensor)
        return returned

    def _random(self) -> Any:
        """Follow what was drawn; never draw again."""
        if 0.0 in {self._argument("dropout_p"), self._argument("dropout")} or self._argument("training") is False:
            return self._follow()
        name = self._operator.name
        exact = self._prepared() if name == "aten.native_dropout" else None
        returned = self._call()
        self._forget_new(returned)
        if exact is not None:
            share = 1.0 - self._argument("p") if self._argument("train") is not False else 1.0
            kept = exact[0][0] * returned[1] / share if share else torch.zeros_like(exact[0][0])
            self._store(returned, exact, (kept, returned[1]))
            return returned
        read = any(tensor.is_floating_point() and not _is_in(tensor, self._written) for tensor in self._tensors)
        for tensor in (*self._written, *_tensors_of(returned)):
            if read and not name.startswith("aten.bernoulli"):
                self._store_unknown(tensor)
            elif _is_followed(tensor) and tensor.is_floating_point():
                self._memory.write(tensor, tensor.detach().to(torch.float64))
        return returned

    def _prepared(self) -> Arguments:
        """Return the arguments with exact values, and compare the choices that depend on them."""
        exact = self._mapped(self._memory.read)
        decision = self._operator.decision
        if decision and self._has_floats:
            real = self._mapped(lambda tensor: tensor.detach().to(torch.float64))
            try:
                if not _agree(
                    decision(*real[0], **_inputs(real, self._operator)),
                    decision(*exact[0], **_inputs(exact, self._operator)),
                ):
                    self._doubt("decides by rounding")
            except CANNOT_COMPUTE:
                self._doubt("cannot be followed")
        return exact

    def _second(self, returned: Any, exact: Arguments) -> Any:
        """Return the operator's result on exact values, or `_UNFOLLOWED`."""
        if not all(_is_followed(tensor) for tensor in self._tensors):
            return _UNFOLLOWED
        if self._operator.absorbs_nan and any(
            bool((other.isnan() & ~tensor.isnan()).any())
            for tensor, other in zip(self._tensors, _tensors_of(exact), strict=True)
            if tensor.is_floating_point()
        ):
            return _UNFOLLOWED
        try:
            with _float64_by_default(needed=not self._has_floats):
                second = self._func(*exact[0], **exact[1])
                if self._operator.rule is ExactRule.SELECTION and isinstance(returned, tuple):
                    return self._selected(returned[1], exact, second), returned[1]
                return second
        except CANNOT_COMPUTE:
            return _UNFOLLOWED

    def _selected(self, indices: torch.Tensor, exact: Arguments, second: Any) -> torch.Tensor:
        """Return the exact values at real indices."""
        values: torch.Tensor = exact[0][0]
        if "max_pool" in self._operator.name:
            inner = values.dim() - _pooled_dims(self._operator.name)
            selected = values.flatten(inner).gather(-1, indices.flatten(inner)).view_as(indices)
        else:
            dim: int = self._argument("dim")
            is_kept = indices.dim() == values.dim()
            selected = values.gather(dim, indices if is_kept else indices.unsqueeze(dim))
            selected = selected if is_kept else selected.squeeze(dim)
        if not _agree(second[0], selected):
            self._doubt("selects by rounding")
        return selected

    def _store(self, returned: Any, exact: Arguments, second: Any) -> None:
        """Store what was computed in `exact`, whose written arguments are copies, and `second`."""
        copies = tuple(_tensors_of(_written(self._operator, exact)))
        for tensor, copy in zip(self._written, copies, strict=True):
            self._store_tensor(tensor, _UNFOLLOWED if second is _UNFOLLOWED else copy)
        results = tuple(_leaves(returned))
        seconds: tuple[Any, ...] = tuple(_leaves(second))  # None where the caller did not ask for a result
        if len(seconds) != len(results):
            seconds = (_UNFOLLOWED,) * len(results)
        for result, other in zip(results, seconds, strict=True):
            if not isinstance(result, torch.Tensor):
                if self._has_floats and result is not None and not _same_number(result, other):
                    self._doubt("decides by rounding" if isinstance(result, bool) else "gives a rounded number")
            elif _address(result) not in self._addresses or (
                _is_in(result, self._written) and not any(other is copy for copy in copies)
            ):
                self._store_tensor(result, other)

    def _store_tensor(self, result: torch.Tensor, exact: Any) -> None:
        if result.device.type != "cpu":
            return
        if not result.is_floating_point() and not result.is_complex():
            if not self._has_floats or self._operator.has_loose_integers:
                return
            if not isinstance(exact, torch.Tensor):
                self._doubt("cannot be followed")
            elif not _agree(result, exact):
                self._doubt("decides by rounding" if result.dtype is torch.bool else "rounds otherwise to integers")
        elif (
            isinstance(exact, torch.Tensor)
            and exact.dtype is _EXACT.get(result.dtype)
            and exact.shape == result.shape
            and _is_followed(result)
        ):
            self._memory.write(_parts(result), _parts(_like(result, exact)))
        else:
            self._store_unknown(result, is_wanted=exact is not None)

    def _store_unknown(self, result: torch.Tensor, *, is_wanted: bool = True) -> None:
        if is_wanted:
            self._doubt("cannot be followed")
        if _is_followed(result) and (result.is_floating_point() or result.is_complex()):
            parts = _parts(result)
            self._memory.write(parts, torch.full((), UNKNOWN, dtype=torch.float64).expand(parts.shape))

    def _forget_new(self, returned: Any) -> None:
        for tensor in _tensors_of(returned):
            if _address(tensor) not in self._addresses:
                self._forget(tensor)
        for tensor in self._written:
            if _address(tensor) not in self._addresses:  # an `out` tensor grew
                self._forget(tensor)

    def _forget(self, tensor: torch.Tensor) -> None:
        if _address(tensor):
            self._memory.forget(tensor)

    def _has_news(self, returned: Any) -> bool:
        """Return whether a result has exact values, or decides something."""
        return any(
            (self._has_floats or leaf.is_floating_point() or leaf.is_complex())
            and _address(leaf) not in self._addresses
            if isinstance(leaf, torch.Tensor)
            else self._has_floats and leaf is not None
            for leaf in _leaves(returned)
        )

    def _mapped(self, read: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
        """Return the arguments in float64."""

        def mapped(value: Any) -> Any:
            match value:
                case torch.Tensor():
                    if not _is_followed(value):
                        return value
                    if value.is_floating_point():
                        return read(value)
                    if value.is_complex():
                        return _like(value, torch.view_as_complex(read(_parts(value)).contiguous()))
                    return value.clone() if _is_in(value, self._written) else value
                case torch.dtype():
                    return torch.float64 if value.is_floating_point else _EXACT.get(value, value)
                case list() | tuple():
                    return [mapped(part) for part in value]
                case _:
                    return value

        return tuple(mapped(part) for part in self._args), {name: mapped(part) for name, part in self._kwargs.items()}

    def _argument(self, name: str) -> Any:
        return argument(self._func, name, self._args, self._kwargs)

    def _doubt(self, what: str) -> None:
        self._memory.doubt(f"{self._operator.name} {what}")


def _written(operator: ExactOperator, arguments: Arguments) -> list[Any]:
    """Return the arguments that the operator writes."""
    args, kwargs = arguments
    return [args[at] if at < len(args) else kwargs.get(name) for at, name in operator.written]


def _inputs(arguments: Arguments, operator: ExactOperator) -> dict[str, Any]:
    """Return keyword arguments that are not written."""
    names = {name for _, name in operator.written}
    return {name: value for name, value in arguments[1].items() if name not in names}


def _leaves(value: Any) -> Iterator[Any]:
    """Return what nested tuples, lists and dicts hold."""
    match value:
        case tuple() | list():
            for part in value:
                yield from _leaves(part)
        case dict():
            for part in value.values():
                yield from _leaves(part)
        case _:
            yield value


def _tensors_of(value: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in _leaves(value) if isinstance(leaf, torch.Tensor))


def _is_in(tensor: torch.Tensor, tensors: Iterable[torch.Tensor]) -> bool:
    return any(candidate is tensor for candidate in tensors)


def _is_followed(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_quantized
        and not is_zeros_without_memory(tensor)
        and not tensor.is_neg()
    )


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of complex numbers as pairs of numbers, and other numbers as they are."""
    if not tensor.is_complex():
        return tensor
    return torch.view_as_real(tensor.detach().conj() if tensor.is_conj() else tensor.detach())


def _like(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return complex conjugates if the memory of `tensor` holds those of its values."""
    return values.conj_physical() if tensor.is_conj() else values


def _address(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage; 0 if it has none."""
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or is_zeros_without_memory(tensor):
        return 0
    return tensor.untyped_storage().data_ptr()


def _agree(first: Any, second: Any) -> bool:
    """Return whether two results are equal, NaN included."""
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        if first.shape != second.shape:
            return False
        is_same = first == second
        if bool(is_same.all()):
            return True
        return bool((is_same | ((first != first) & (second != second))).all())  # noqa: PLR0124 - NaN, in any type
    return all(_agree(left, right) for left, right in zip(_tensors_of(first), _tensors_of(second), strict=False))


def _same_number(first: Any, second: Any) -> bool:
    return first == second or (first != first and second != second)  # noqa: PLR0124 - NaN


def _pooled_dims(name: str) -> int:
    """Return the number of dims that a pooling operator's indices count through."""
    return next(dims for dims in (1, 2, 3) if f"pool{dims}d" in name)


@contextmanager
def _float64_by_default(*, needed: bool) -> Generator[None]:
    """Let operators that make floating-point numbers of integers make float64."""
    if not needed:
        yield
        return
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(usual)
