"""The accesses of a kernel that a hint makes wider, and the hint to blame if such an access cannot be made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd

from harness.engines.ttir.axis_claims import Claims, PlacedHint, accesses, claims_of, hints_of, power_of_two_in
from harness.engines.ttir.ir import Function, Operation
from harness.engines.ttir.lane_flow import stores_of_lanes
from harness.model.run import Hint, HintBreach

WIDEST_BYTES = 16
"""The widest access of one thread."""

_SUSPECTS: Mapping[HintBreach, Sequence[Hint]] = {
    HintBreach.APART: (Hint.CONTIGUITY, Hint.CONSTANCY, Hint.DIVISIBILITY),
    HintBreach.MISALIGNED: (Hint.DIVISIBILITY, Hint.CONTIGUITY, Hint.CONSTANCY),
    HintBreach.UNEVEN: (Hint.CONSTANCY, Hint.CONTIGUITY, Hint.DIVISIBILITY),
}
"""The kinds of hints behind each breach, the likeliest first."""


@dataclass(frozen=True, slots=True)
class Vector:
    """The lanes that one thread may access at once: `lanes` neighbours along an axis.  One lane is no vector."""

    axis: int
    lanes: int


def vector_of(claims: Claims, operation: Operation, mask: int | None) -> Vector:
    """Return the lanes of a load or store that the compiler may let one thread access at once; `mask` is an operand."""
    kind = operation.operand_types[0]
    assert kind.pointee is not None
    pointers = claims.get(operation.operands[0], kind)
    runs = [min(run, extent) for run, extent in zip(pointers.contiguous, kind.shape, strict=True)]
    # The axis with the longest runs.  Of equal ones the last, since a miss is better than a false alarm.
    axis = max(range(len(runs)), key=lambda at: (runs[at], at))
    size = kind.pointee.bytes
    lanes = min(runs[axis], max(1, pointers.divisible[axis] // size), max(1, WIDEST_BYTES // size))
    if mask is not None:
        lanes = gcd(lanes, claims.get(operation.operands[mask], operation.operand_types[mask]).constant[axis])
    return Vector(axis, power_of_two_in(lanes) if lanes > 1 else 1)


@dataclass(frozen=True)
class WideAccess:
    """A load or store whose vector follows from hints."""

    kernel: Function
    operation: Operation
    mask: int | None
    vector: Vector
    _blamed: dict[HintBreach, PlacedHint] = field(default_factory=dict[HintBreach, PlacedHint])

    @cached_property
    def stores(self) -> Mapping[int, int] | None:
        """The stores that keep lanes of a load, as `stores_of_lanes` returns them; None for a store."""
        if self.operation.name != "tt.load":
            return None
        return stores_of_lanes(self.kernel, self.operation, self.vector.axis)

    def to_blame(self, breach: HintBreach) -> PlacedHint:
        """Return the hint without which the compiler would not make the access as wide."""
        if breach not in self._blamed:
            self._blamed[breach] = min(reversed(self._needed), key=lambda each: _SUSPECTS[breach].index(each.hint))
        return self._blamed[breach]

    @cached_property
    def _needed(self) -> tuple[PlacedHint, ...]:
        hints = hints_of(self.kernel)
        plain = self._vector_with(())
        return (
            tuple(hint for hint in hints if self._vector_with(set(hints) - {hint}) != self.vector)
            or tuple(hint for hint in hints if self._vector_with((hint,)) != plain)
            or hints
        )

    def _vector_with(self, hints: Iterable[PlacedHint]) -> Vector:
        return vector_of(claims_of(self.kernel, frozenset(hints)), self.operation, self.mask)


_known: dict[int, tuple[Function, Mapping[int, WideAccess]]] = {}
"""By the id of a kernel, which the value keeps alive."""


def wide_accesses(kernel: Function) -> Mapping[int, WideAccess]:
    """Return the accesses that hints make wider, by the id of their operation; computed once for each kernel."""
    if id(kernel) not in _known:
        _known[id(kernel)] = kernel, dict(_found(kernel))
    return _known[id(kernel)][1]


def widened_by(kernel: Function, number: int) -> bool:
    """Return True if an access is wider because of what divides the parameter with this number."""
    parameters = tuple(
        replace(parameter, divisibility=1) if at == number else parameter
        for at, parameter in enumerate(kernel.parameters)
    )
    hints = frozenset(hints_of(kernel))
    believed, without = claims_of(kernel, hints), claims_of(replace(kernel, parameters=parameters), hints)
    return any(
        vector_of(believed, operation, mask) != vector_of(without, operation, mask)
        for operation, mask in accesses(kernel)
    )


def _found(kernel: Function) -> Iterable[tuple[int, WideAccess]]:
    hints = hints_of(kernel)
    if not hints:
        return
    believed, plain = claims_of(kernel, frozenset(hints)), claims_of(kernel, frozenset())
    for operation, mask in accesses(kernel):
        vector, certain = (vector_of(claims, operation, mask) for claims in (believed, plain))
        if vector.lanes > 1 and (vector.axis != certain.axis or vector.lanes > certain.lanes):
            yield id(operation), WideAccess(kernel, operation, mask, vector)
