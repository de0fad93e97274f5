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
        self, memory: ExactMemory, operator: ExactOperator, func: Callable[..., Any], given: Arguments
    ) -> None:
        self._memory = memory
        self._operator = operator
        self._func = func
        self._args, self._kwargs = given
        self._tensors = tuple(one for one in _leaves(given) if isinstance(one, torch.Tensor))
        self._written = tuple(_tensors_of(_written(operator, given)))
        self._addresses = {_address(one) for one in self._tensors}
        self._has_floats = any(one.is_floating_point() or one.is_complex() for one in self._tensors)

    def run(self) -> Any:
        """Run the operator and follow it; return its real result."""
        if any(one.device.type != "cpu" for one in self._tensors):
            return self._call()
        match self._operator.rule:
            case ExactRule.VALUES | ExactRule.SELECTION:
                return self._follow()
            case ExactRule.RANDOM:
                return self._random()
            case ExactRule.NEW | ExactRule.LIFTED:
                return self._take_as_it_is()
            case ExactRule.UNKNOWN:
                made = self._call()
                self._forget_new(made)
                for one in (*self._written, *_tensors_of(made)):
                    self._store_tensor(one, _UNFOLLOWED)
                return made
            case ExactRule.BITS:
                made = self._call()
                if made.dtype is not self._args[0].dtype and self._has_floats:
                    self._doubt("takes the bits of numbers")
                return made
            case ExactRule.VIEW | ExactRule.INSIDE:
                raise AssertionError(self._operator)

    def _call(self) -> Any:
        return self._func(*self._args, **self._kwargs)

    def _follow(self) -> Any:
        exact = self._prepared() if self._written else None  # what is written must be read first
        made = self._call()
        self._forget_new(made)
        if exact is None and self._has_news(made):
            exact = self._prepared()
        if exact is not None:
            self._store(made, exact, self._second(made, exact))
        return made

    def _take_as_it_is(self) -> Any:
        made = self._call()
        for one in _tensors_of(made):
            if _is_in(one, self._written) and _is_followed(one):  # may lie in a larger storage
                self._memory.write(one, one.detach().to(torch.float64))
            else:
                self._forget(one)
        return made

    def _random(self) -> Any:
        """Follow what was drawn; never draw again."""
        if 0.0 in {self._argument("dropout_p"), self._argument("dropout")} or self._argument("training") is False:
            return self._follow()
        name = self._operator.name
        exact = self._prepared() if name == "aten.native_dropout" else None
        made = self._call()
        self._forget_new(made)
        if exact is not None:
            share = 1.0 - self._argument("p") if self._argument("train") is not False else 1.0
            kept = exact[0][0] * made[1] / share if share else torch.zeros_like(exact[0][0])
            self._store(made, exact, (kept, made[1]))
            return made
        read = any(one.is_floating_point() and not _is_in(one, self._written) for one in self._tensors)
        for one in (*self._written, *_tensors_of(made)):
            if read and not name.startswith("aten.bernoulli"):
                self._store_unknown(one)
            elif _is_followed(one) and one.is_floating_point():
                self._memory.write(one, one.detach().to(torch.float64))
        return made

    def _prepared(self) -> Arguments:
        """Return the arguments with exact values, and compare the choices that depend on them."""
        exact = self._mapped(self._memory.read)
        decision = self._operator.decision
        if decision and self._has_floats:
            real = self._mapped(lambda one: one.detach().to(torch.float64))
            try:
                if not _agree(
                    decision(*real[0], **_inputs(real, self._operator)),
                    decision(*exact[0], **_inputs(exact, self._operator)),
                ):
                    self._doubt("decides by rounding")
            except CANNOT_COMPUTE:
                self._doubt("cannot be followed")
        return exact

    def _second(self, made: Any, exact: Arguments) -> Any:
        """Return the operator's result on exact values, or `_UNFOLLOWED`."""
        if not all(_is_followed(one) for one in self._tensors):
            return _UNFOLLOWED
        if self._operator.absorbs_nan and any(
            bool((other.isnan() & ~one.isnan()).any())
            for one, other in zip(self._tensors, _tensors_of(exact), strict=True)
            if one.is_floating_point()
        ):
            return _UNFOLLOWED
        try:
            with _float64_by_default(needed=not self._has_floats):
                second = self._func(*exact[0], **exact[1])
                if self._operator.rule is ExactRule.SELECTION and isinstance(made, tuple):
                    return self._selected(made[1], exact, second), made[1]
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

    def _store(self, made: Any, exact: Arguments, second: Any) -> None:
        """Store what was computed in `exact`, whose written arguments are copies, and `second`."""
        copies = tuple(_tensors_of(_written(self._operator, exact)))
        for one, copy in zip(self._written, copies, strict=True):
            self._store_tensor(one, _UNFOLLOWED if second is _UNFOLLOWED else copy)
        results = tuple(_leaves(made))
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

    def _forget_new(self, made: Any) -> None:
        for one in _tensors_of(made):
            if _address(one) not in self._addresses:
                self._forget(one)
        for one in self._written:
            if _address(one) not in self._addresses:  # an `out` tensor grew
                self._forget(one)

    def _forget(self, one: torch.Tensor) -> None:
        if _address(one):
            self._memory.forget(one)

    def _has_news(self, made: Any) -> bool:
        """Return whether a result has exact values, or decides something."""
        return any(
            (self._has_floats or one.is_floating_point() or one.is_complex()) and _address(one) not in self._addresses
            if isinstance(one, torch.Tensor)
            else self._has_floats and one is not None
            for one in _leaves(made)
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
                    return [mapped(one) for one in value]
                case _:
                    return value

        return tuple(mapped(one) for one in self._args), {name: mapped(one) for name, one in self._kwargs.items()}

    def _argument(self, name: str) -> Any:
        return argument(self._func, name, self._args, self._kwargs)

    def _doubt(self, what: str) -> None:
        self._memory.doubt(f"{self._operator.name} {what}")


def _written(operator: ExactOperator, given: Arguments) -> list[Any]:
    """Return the arguments that the operator writes."""
    args, kwargs = given
    return [args[at] if at < len(args) else kwargs.get(name) for at, name in operator.written]


def _inputs(given: Arguments, operator: ExactOperator) -> dict[str, Any]:
    """Return keyword arguments that are not written."""
    names = {name for _, name in operator.written}
    return {name: value for name, value in given[1].items() if name not in names}


def _leaves(value: Any) -> Iterator[Any]:
    """Return what nested tuples, lists and dicts hold."""
    match value:
        case tuple() | list():
            for one in value:
                yield from _leaves(one)
        case dict():
            for one in value.values():
                yield from _leaves(one)
        case _:
            yield value


def _tensors_of(value: Any) -> Iterator[torch.Tensor]:
    return (one for one in _leaves(value) if isinstance(one, torch.Tensor))


def _is_in(tensor: torch.Tensor, tensors: Iterable[torch.Tensor]) -> bool:
    return any(one is tensor for one in tensors)


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
    return all(_agree(one, other) for one, other in zip(_tensors_of(first), _tensors_of(second), strict=False))


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
