"""Finds the first value that the PTX of a wrong launch computes differently than its TTIR.

Variants of the kernel also store intermediate values.  One variant stores all of them.  If it is right, looking at a
value has changed what the compiler makes, so each half is exposed alone, and so on, until the time is up.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from harness.engines.comparison.differences import distance
from harness.engines.comparison.launches import CannotRepeat
from harness.engines.comparison.storages import storage_views
from harness.engines.ptx.wrong_launch import WrongLaunch
from harness.engines.triton.driver import LaunchRequest
from harness.engines.ttir.exposed_values import PREFIX, Exposable, ExposableKernel
from harness.engines.ttir.parser import parse
from harness.errors import CannotExecute
from harness.model.launch_difference import Difference
from harness.model.miscompilation import FirstValue

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2,
    "i1": torch.int8,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
}
NOT_COMPUTED = {True: 0xFF, False: 0x5A}
"""The bytes of a copy that nothing has stored, by whether its type is a floating-point one: the first are NaN."""
HIDDEN = "the difference vanishes when values are looked at"
STORES = frozenset({"tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_store", "tt.descriptor_reduce"})


class ValueUnknown(Exception):
    """The first value is not known; says why."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A copy of a value that differs."""

    moment: tuple[int, ...]
    slot: int
    program: int
    first: FirstValue


class FirstValueSearch:
    """Finds the first value of one launch."""

    def __init__(self, wrong: WrongLaunch, until: float) -> None:
        """`until` is the moment of the monotonic clock after which no variant begins."""
        self._wrong, self._until = wrong, until
        request = wrong.done.request
        self._kernel = ExposableKernel(request.ttir, request.grid)
        self._module = parse(request.ttir)
        self._unseen: list[Exposable] = []
        """Values that hide the fault, or for which there was no time."""
        self._seen: list[_Seen] = []

    def result(self) -> FirstValue:
        """Return the first value.

        Raises:
            ValueUnknown: no value could be looked at, or all agree.
        """
        values = tuple(value for value in self._kernel.values() if value.type.element in DTYPES)
        self._expose(values)
        if self._seen:
            found = min(self._seen, key=lambda seen: seen.moment)
            hidden = sum(value.moment(0) < found.moment for value in self._unseen)
            return replace(found.first, hidden=hidden)
        if len(self._unseen) == len(values):
            raise ValueUnknown(f"{HIDDEN}; {self._stores()}")
        more = f", and {len(self._unseen)} could not be looked at" if self._unseen else ""
        raise ValueUnknown(f"every value that was looked at agrees{more}; {self._stores()}")

    def _stores(self) -> str:
        """Name the lines that store."""
        operations = self._module.kernel.body.all_operations()
        sources = (self._module.source(operation.location) for operation in operations if operation.name in STORES)
        lines = dict.fromkeys(str(source) for source in sources if source is not None)
        return f"the kernel stores at {', '.join(lines)}" if lines else "the kernel stores at unknown lines"

    def _expose(self, values: Sequence[Exposable]) -> None:
        """Look at these values, in as few variants as show the fault."""
        if not values:
            return
        if time.monotonic() >= self._until or not self._compare(values):
            if len(values) == 1 or time.monotonic() >= self._until:
                self._unseen += values
                return
            middle = len(values) // 2
            self._expose(values[:middle])
            self._expose(values[middle:])

    def _compare(self, values: Sequence[Exposable]) -> bool:
        """Execute a variant that stores these values; return False if it does not show the fault."""
        request, exposed = self._request(values)
        before = dict(self._wrong.done.before)
        before |= {address: bytes(view) for address, view in storage_views(exposed.values())}
        try:
            differences, expected, computed = self._wrong.compare(request, before)
        except (CannotRepeat, CannotExecute):
            return False
        if differences[self._wrong.asked.argument].is_explained:
            return False
        for name, value in zip(exposed, values, strict=True):
            if not differences[name].is_explained:
                self._seen.append(self._first_copy(value, differences[name], expected[name], computed[name]))
        return True

    def _request(self, values: Sequence[Exposable]) -> tuple[LaunchRequest, dict[str, torch.Tensor]]:
        """Return the launch of a variant, and the tensors to which it stores values."""
        request = self._wrong.done.request
        exposed = {f"{PREFIX}{number}": self._empty(value) for number, value in enumerate(values)}
        names = list(request.source.fn.arg_names)
        arguments = [*request.arguments[: len(names)], *exposed.values()]
        signature = {f"{PREFIX}{number}": f"*{value.stored_element}" for number, value in enumerate(values)}
        source = _Widened(request.source, [*names, *exposed], signature)
        return replace(request, ttir=self._kernel.exposing(values), source=source, arguments=arguments), exposed

    def _empty(self, value: Exposable) -> torch.Tensor:
        dtype = DTYPES[value.type.element]
        shape = (self._kernel.programs, value.slots, value.elements)
        count = self._kernel.programs * value.slots * value.elements * dtype.itemsize
        content = torch.full((count,), NOT_COMPUTED[dtype.is_floating_point], dtype=torch.uint8)
        return content.view(dtype).view(shape)

    def _first_copy(
        self, value: Exposable, difference: Difference, expected: torch.Tensor, computed: torch.Tensor
    ) -> _Seen:
        """Return the first copy of a value in which an element differs."""
        differs = _differing(difference, expected, computed)
        program, slot, element = min(
            (tuple(int(part) for part in place) for place in differs.nonzero()), key=lambda place: (place[1], place[0])
        )
        copy = differs[program, slot]
        index = tuple(int(part) for part in np.unravel_index(element, value.type.shape)) if value.type.shape else ()
        first = FirstValue(
            value=f"{value.name} = {value.operation}",
            source=self._module.source(value.location),
            program=program,
            iterations=value.iterations(slot),
            index=index,
            differing=int(copy.sum()),
            elements=value.elements,
            expected=_text(expected[program, slot, element]),
            computed=_text(computed[program, slot, element]),
        )
        return _Seen(value.moment(slot), slot, program, first)


def _differing(difference: Difference, expected: torch.Tensor, computed: torch.Tensor) -> torch.Tensor:
    """Return a mask of the elements that a few roundings do not explain; of all that differ, if those are all."""
    if not difference.is_floating:
        return expected != computed
    wide, other = expected.double(), computed.double()
    apart = distance(wide, other)
    finite = wide[wide.isfinite()]
    allowed = difference.few_roundings * float(finite.abs().max()) if finite.numel() else 0.0
    far = apart > allowed
    return far if bool(far.any()) else apart > 0


def _text(element: torch.Tensor) -> str:
    """Return a number as text."""
    raw = element.reshape(1).contiguous().view(torch.uint8)
    if bool((raw == NOT_COMPUTED[element.dtype.is_floating_point]).all()):
        return "not computed"
    return f"{element.item():.6g}" if element.dtype.is_floating_point else str(element.item())


class _Widened:
    """A kernel's `ASTSource` with more parameters."""

    def __init__(self, source: Any, names: Sequence[str], signature: Mapping[str, str]) -> None:
        self._source = source
        self.fn = _Renamed(source.fn, names)
        self.signature = {**source.signature, **signature}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class _Renamed:
    """A `JITFunction` with other names of parameters."""

    def __init__(self, fn: Any, names: Sequence[str]) -> None:
        self._fn = fn
        self.arg_names = list(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fn, name)
