"""What Triton's compiler believes of the lanes of each value, along each axis, from the kernel's TTIR.

The compiler joins neighbouring lanes into one access to memory if it believes that they are neighbours there, and that
the first of them is aligned.  It follows three numbers for each axis through the kernel's arithmetic.  Hints
(`tl.multiple_of`, `tl.max_contiguous`, `tl.max_constancy`) override what it follows.

This analysis has the rules that Triton 3.6 and 3.9 share.  It believes nothing of the results of other operations, so
its claims are at most those of the compiler.  Without false hints and arguments, each claim is true.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd

from harness.engines.ttir.ir import Function, Operation, TtirRegion, Type
from harness.engines.ttir.reach import yielded
from harness.model.run import Hint

MOST = 1 << 62
"""The divisor of zero."""
MOST_PASSES = 64
"""Passes over a loop until its claims are given up.  Each pass divides one of them at least by two."""
Shape = tuple[int, ...]

ATTRIBUTES: Mapping[str, Hint] = {
    "tt.contiguity": Hint.CONTIGUITY,
    "tt.divisibility": Hint.DIVISIBILITY,
    "tt.constancy": Hint.CONSTANCY,
}
_WITHOUT_EFFECT = frozenset({"scf.for", "scf.if", "scf.while"})
"""Operations whose hints the compiler does not follow: what their regions yield decides.

For the same reason a hint on a value that a loop carries has no effect; it is an attribute of the loop.  A hint on an
argument of the kernel is not even written into TTIR.
"""


@dataclass(frozen=True, slots=True)
class AxisClaims:
    """Three numbers for each axis of a value.  A scalar has one axis."""

    contiguous: Shape
    """The length of runs of lanes that rise by one."""
    divisible: Shape
    """A divisor of the first lane of each run.  Of a pointer in bytes."""
    constant: Shape
    """The length of runs of equal lanes."""
    number: int | None = None
    """The value of all lanes, if it is known."""

    @property
    def axes(self) -> range:
        return range(len(self.contiguous))


@dataclass(frozen=True, slots=True)
class PlacedHint:
    """A hint of a kernel."""

    operation: int
    """The identity of the operation whose result the hint is about."""
    location: str
    hint: Hint
    values: Shape
    """One for each axis."""


def hints_of(kernel: Function) -> tuple[PlacedHint, ...]:
    """Return the hints that the compiler follows, in the order of the kernel's text."""
    return tuple(
        PlacedHint(id(operation), operation.location, hint, values)
        for operation in kernel.body.all_operations()
        if operation.name not in _WITHOUT_EFFECT
        for name, hint in ATTRIBUTES.items()
        if (values := _values(operation.attributes.get(name)))
    )


_NUMBER = re.compile(r"-?\d+")


def _values(attribute: object) -> Shape:
    """Return the numbers of `dense<[1, 16]>`, `dense<16>` or 16."""
    return tuple(map(int, _NUMBER.findall(str(attribute)))) if attribute is not None else ()


def claims_of(kernel: Function, hints: frozenset[PlacedHint]) -> "Claims":
    """Return what the compiler believes of all values if it follows these hints alone."""
    claims = Claims(hints)
    for parameter in kernel.parameters:
        claims.set(parameter.slot, replace(_nothing(parameter.type.shape), divisible=(parameter.divisibility,)))
    claims.follow(kernel.body)
    return claims


class Claims:
    """The claims of all values of one kernel, by slot."""

    def __init__(self, hints: frozenset[PlacedHint]) -> None:
        self._claims: dict[int, AxisClaims] = {}
        self._hints: dict[int, list[PlacedHint]] = {}
        for hint in hints:
            self._hints.setdefault(hint.operation, []).append(hint)

    def get(self, slot: int, kind: Type) -> AxisClaims:
        return self._claims.get(slot) or _nothing(kind.shape)

    def set(self, slot: int, claims: AxisClaims) -> None:
        self._claims[slot] = claims

    def follow(self, region: TtirRegion) -> None:
        for block in region.blocks:
            for operation in block.operations:
                if operation.name == "scf.for":
                    self._loop(operation)
                elif operation.name == "scf.if":
                    self._conditional(operation)
                else:
                    self._single(operation)

    def _single(self, operation: Operation) -> None:
        for region in operation.regions if operation.name == "scf.while" else ():
            self.follow(region)
        if not operation.results:
            return
        rule, kind = _RULES.get(operation.name), operation.result_types[0]
        operands = [self.get(*each) for each in zip(operation.operands, operation.operand_types, strict=True)]
        claims = rule(operation, operands) if rule is not None else _nothing(kind.shape)
        for hint in self._hints.get(id(operation), ()):
            if len(hint.values) == len(claims.contiguous):
                claims = _overridden(claims, hint)
        for slot in operation.results:
            self.set(slot, claims)

    def _loop(self, operation: Operation) -> None:
        (body,) = operation.regions
        induction, *carried = body.entry.arguments
        lower, _, step = (
            self.get(*each) for each in zip(operation.operands[:3], operation.operand_types[:3], strict=True)
        )
        self.set(induction, AxisClaims((1,), (gcd(lower.divisible[0], step.divisible[0]),), (1,)))
        kinds = operation.result_types
        first = [self.get(slot, kind) for slot, kind in zip(operation.operands[3:], kinds, strict=True)]
        current, passes = first, 0
        while True:
            for slot, claims in zip(carried, current, strict=True):
                self.set(slot, claims)
            self.follow(body)
            ends = [self.get(slot, kind) for slot, kind in zip(yielded(body), kinds, strict=True)]
            joined = [_joined(before, end) for before, end in zip(current, ends, strict=True)]
            if joined == current:
                break
            passes += 1
            current = joined if passes < MOST_PASSES else [_nothing(kind.shape) for kind in kinds]
        for slot, claims in zip(operation.results, current, strict=True):
            self.set(slot, claims)

    def _conditional(self, operation: Operation) -> None:
        for region in operation.regions:
            self.follow(region)
        ends = [
            [self.get(slot, kind) for slot, kind in zip(yielded(region), operation.result_types, strict=False)]
            for region in operation.regions
        ]
        for slot, either in zip(operation.results, zip(*ends, strict=True), strict=False):
            first, *others = either
            for other in others:
                first = _joined(first, other)
            self.set(slot, first)


def _nothing(shape: Shape) -> AxisClaims:
    ones = (1,) * max(1, len(shape))
    return AxisClaims(ones, ones, ones)


def _overridden(claims: AxisClaims, hint: PlacedHint) -> AxisClaims:
    match hint.hint:
        case Hint.CONTIGUITY:
            return replace(claims, contiguous=hint.values)
        case Hint.DIVISIBILITY:
            return replace(claims, divisible=hint.values)
        case Hint.CONSTANCY:
            return replace(claims, constant=hint.values)


def _joined(left: AxisClaims, right: AxisClaims) -> AxisClaims:
    """Return what is believed of a value that is one of two."""
    return AxisClaims(
        tuple(map(gcd, left.contiguous, right.contiguous)),
        tuple(_common_divisor(left, right, axis) for axis in left.axes),
        tuple(map(gcd, left.constant, right.constant)),
        left.number if left.number == right.number else None,
    )


def _common_divisor(left: AxisClaims, right: AxisClaims, axis: int) -> int:
    """Return the divisor of the first lanes of runs that may be shorter than those of either value."""
    common = gcd(left.divisible[axis], right.divisible[axis])
    runs = left.contiguous[axis], right.contiguous[axis]
    return common if runs[0] == runs[1] else gcd(common, *runs)


def power_of_two_in(number: int) -> int:
    """Return the largest power of two that divides a number."""
    return min(number & -number, MOST) if number else MOST


# --- the rules of single operations ---

Rule = Callable[[Operation, list[AxisClaims]], AxisClaims]
AxisRule = Callable[[AxisClaims, AxisClaims, int], int]


def _extents(operation: Operation) -> Shape:
    return operation.result_types[0].shape or (1,)


def _known(number: int, operation: Operation) -> AxisClaims:
    shape = operation.result_types[0].shape
    rank = max(1, len(shape))
    return AxisClaims((1,) * rank, (power_of_two_in(number),) * rank, shape or (1,), number)


_TRUTH = {"true": 1, "false": 0}
_SAME_EVERYWHERE = re.compile(r"(?:dense<)?(-?\d+|true|false)>?$")


def _constant(operation: Operation, operands: list[AxisClaims]) -> AxisClaims:
    del operands
    text = _SAME_EVERYWHERE.match(str(operation.attributes["value"]))
    if text is None or not operation.result_types[0].element.startswith("i"):
        return _nothing(operation.result_types[0].shape)
    return _known(_TRUTH[text[1]] if text[1] in _TRUTH else int(text[1]), operation)


def _range(operation: Operation, operands: list[AxisClaims]) -> AxisClaims:
    del operands
    start, end = (int(str(operation.attributes[name])) for name in ("start", "end"))
    return AxisClaims((end - start,), (power_of_two_in(start),), (1,))


def _splat(operation: Operation, operands: list[AxisClaims]) -> AxisClaims:
    (scalar,), shape = operands, _extents(operation)
    return AxisClaims((1,) * len(shape), scalar.divisible * len(shape), shape, scalar.number)


def _expanded(operation: Operation, operands: list[AxisClaims]) -> AxisClaims:
    (value,), at = operands, int(str(operation.attributes["axis"]))
    if value.number is not None:
        divisor = power_of_two_in(value.number)
    else:  # along the new axis each lane is the first of its run
        divisor = gcd(*(1 if value.contiguous[axis] > 1 else value.divisible[axis] for axis in value.axes))

    def with_axis(numbers: Shape, new: int) -> Shape:
        return (*numbers[:at], new, *numbers[at:])

    return AxisClaims(
        with_axis(value.contiguous, 1), with_axis(value.divisible, divisor), with_axis(value.constant, 1), value.number
    )


def _broadcast(operation: Operation, operands: list[AxisClaims]) -> AxisClaims:
    (value,), before, after = operands, operation.operand_types[0].shape, _extents(operation)
    return AxisClaims(
        tuple(1 if before[axis] == 1 else value.contiguous[axis] for axis in value.axes),
        value.divisible,
        tuple(after[axis] if before[axis] == 1 else value.constant[axis] for axis in value.axes),
        value.number,
    )


def _same(operation: Operation, operands: list[AxisClaims]) -> AxisClaims:
    del operation
    return operands[0]


def _loaded(operation: Operation, operands: list[AxisClaims]) -> AxisClaims:
    """Lanes that load from one address hold one value."""
    constant = operands[0].constant
    if len(operands) > 1:
        constant = tuple(map(gcd, constant, operands[1].constant))
    return replace(_nothing(operation.result_types[0].shape), constant=constant)


def _one(left: AxisClaims, right: AxisClaims, axis: int) -> int:
    del left, right, axis
    return 1


def _both_constant(left: AxisClaims, right: AxisClaims, axis: int) -> int:
    return gcd(left.constant[axis], right.constant[axis])


def _lanewise(
    contiguous: AxisRule, divisible: AxisRule, constant: AxisRule, number: Callable[[int, int], int | None]
) -> Rule:
    """Return the rule of an operation of two integers, from its rules for one axis."""

    def rule(operation: Operation, operands: list[AxisClaims]) -> AxisClaims:
        left, right = operands
        if left.number is not None and right.number is not None:
            result = number(left.number, right.number)
            if result is not None:
                return replace(_known(result, operation), constant=tuple(map(max, left.constant, right.constant)))

        def along_axes(of: AxisRule) -> Shape:
            return tuple(of(left, right, axis) for axis in left.axes)

        return AxisClaims(along_axes(contiguous), along_axes(divisible), along_axes(constant))

    return rule


def _sum_runs(left: AxisClaims, right: AxisClaims, axis: int) -> int:
    return max(gcd(left.constant[axis], right.contiguous[axis]), gcd(left.contiguous[axis], right.constant[axis]))


def _common(left: AxisClaims, right: AxisClaims, axis: int) -> int:
    return gcd(left.divisible[axis], right.divisible[axis])


def _moved_pointer(operation: Operation, operands: list[AxisClaims]) -> AxisClaims:
    pointer, offset = operands
    pointee = operation.operand_types[0].pointee
    size = pointee.bytes if pointee is not None else 1
    in_bytes = replace(offset, divisible=tuple(min(number * size, MOST) for number in offset.divisible), number=None)
    return _sum(operation, [replace(pointer, number=None), in_bytes])


def _factor(value: AxisClaims, other: AxisClaims, axis: int) -> int:
    """Return the divisor that all lanes have, not only the first lanes of runs."""
    return 1 if value.contiguous[axis] > 1 and other.number != 1 else value.divisible[axis]


def _product_divisor(left: AxisClaims, right: AxisClaims, axis: int) -> int:
    return min(_factor(left, right, axis) * _factor(right, left, axis), MOST)


def _product_runs(left: AxisClaims, right: AxisClaims, axis: int) -> int:
    runs = left.contiguous[axis] if right.number == 1 else 1
    return max(runs, right.contiguous[axis] if left.number == 1 else 1)


def _left_runs(neutral: int) -> AxisRule:
    """Return the rule for runs of a left operand that the right operand leaves as it is."""
    return lambda left, right, axis: left.contiguous[axis] if right.number == neutral else 1


def _quotient_divisor(left: AxisClaims, right: AxisClaims, axis: int) -> int:
    if left.number == 0 or right.number == 1:
        return left.divisible[axis]
    number = abs(right.number or 0)
    if number and number == power_of_two_in(number) and left.contiguous[axis] == 1:
        return max(1, left.divisible[axis] // number)
    return 1


def _truncated(left: int, right: int) -> int | None:
    return (abs(left) // abs(right)) * (1 if (left < 0) == (right < 0) else -1) if right else None


def _division(operation: Operation, operands: list[AxisClaims]) -> AxisClaims:
    left, right = operands
    quotient = _lanewise(_left_runs(1), _quotient_divisor, _both_constant, _truncated)(operation, operands)
    if not operation.result_types[0].shape:
        return replace(quotient, constant=(1,))
    shape = _extents(operation)
    constant = tuple(
        max(runs, gcd(left.contiguous[axis], left.divisible[axis], right.divisible[axis]))
        if left.contiguous[axis] == right.constant[axis] == shape[axis] and quotient.number is None
        else runs
        for axis, runs in enumerate(quotient.constant)
    )
    return replace(quotient, constant=constant)


def _remainder(operation: Operation, operands: list[AxisClaims]) -> AxisClaims:
    shape = operation.result_types[0].shape

    def runs(left: AxisClaims, right: AxisClaims, axis: int) -> int:
        if shape and left.contiguous[axis] == right.constant[axis] == shape[axis]:
            return gcd(left.contiguous[axis], left.divisible[axis], right.divisible[axis])
        return 1

    def divisor(left: AxisClaims, right: AxisClaims, axis: int) -> int:
        return _common(left, right, axis) if right.constant[axis] > 1 else 1

    def constant(left: AxisClaims, right: AxisClaims, axis: int) -> int:
        return _both_constant(left, right, axis) if shape else 1

    def number(left: int, right: int) -> int | None:
        quotient = _truncated(left, right)
        return None if quotient is None else left - quotient * right

    return _lanewise(runs, divisor, constant, number)(operation, operands)


def _shifted_left(left: AxisClaims, right: AxisClaims, axis: int) -> int:
    shift = right.number or 0
    return min(_every_lane(left, shift, axis) << min(max(shift, 0), 62), MOST)


def _shifted_right(left: AxisClaims, right: AxisClaims, axis: int) -> int:
    return 1 if right.number is None else max(1, _every_lane(left, right.number, axis) >> min(max(right.number, 0), 62))


def _every_lane(value: AxisClaims, shift: int, axis: int) -> int:
    return 1 if shift and value.contiguous[axis] > 1 else value.divisible[axis]


def _shift_number(of: Callable[[int, int], int]) -> Callable[[int, int], int | None]:
    return lambda left, right: of(left, right) if 0 <= right < 63 else None


def _extremum(operation: Operation, operands: list[AxisClaims]) -> AxisClaims:
    del operation
    return replace(_joined(*operands), number=None)


def _compared(operation: Operation, operands: list[AxisClaims]) -> AxisClaims:
    """Where one side rises and the other is constant, the answer changes at most at the beginning of a run."""
    shape, predicate, (left, right) = operation.result_types[0].shape, operation.keywords[0], operands
    if not shape:
        return _nothing(())
    constant = [_both_constant(left, right, axis) for axis in left.axes]
    for axis in left.axes:
        shared = _common(left, right, axis)
        if predicate in {"sgt", "ugt", "sle", "ule"} and left.constant[axis] == shape[axis]:
            constant[axis] = max(constant[axis], gcd(right.contiguous[axis], shared))
        elif predicate in {"slt", "ult", "sge", "uge"} and right.constant[axis] == shape[axis]:
            constant[axis] = max(constant[axis], gcd(left.contiguous[axis], shared))
    return replace(_nothing(shape), constant=tuple(constant))


def _selected(operation: Operation, operands: list[AxisClaims]) -> AxisClaims:
    condition, left, right = operands
    joined = _joined(left, right)
    if not operation.operand_types[0].shape:
        return joined
    return replace(
        joined,
        contiguous=tuple(map(gcd, joined.contiguous, condition.constant)),
        constant=tuple(map(gcd, joined.constant, condition.constant)),
    )


_sum = _lanewise(_sum_runs, _common, _both_constant, lambda left, right: left + right)
_difference = _lanewise(
    lambda left, right, axis: gcd(left.contiguous[axis], right.constant[axis]),
    _common,
    _both_constant,
    lambda left, right: left - right,
)


def _logical(number: Callable[[int, int], int]) -> Rule:
    return _lanewise(_one, _one, _both_constant, number)


_RULES: Mapping[str, Rule] = {
    "arith.constant": _constant,
    "tt.make_range": _range,
    "tt.splat": _splat,
    "tt.expand_dims": _expanded,
    "tt.broadcast": _broadcast,
    "tt.load": _loaded,
    "tt.addptr": _moved_pointer,
    "arith.addi": _sum,
    "arith.subi": _difference,
    "arith.muli": _lanewise(_product_runs, _product_divisor, _both_constant, lambda left, right: left * right),
    **dict.fromkeys(("arith.divsi", "arith.divui"), _division),
    **dict.fromkeys(("arith.remsi", "arith.remui"), _remainder),
    "arith.shli": _lanewise(
        _left_runs(0), _shifted_left, _both_constant, _shift_number(lambda left, right: left << right)
    ),
    **dict.fromkeys(
        ("arith.shrsi", "arith.shrui"),
        _lanewise(_left_runs(0), _shifted_right, _both_constant, _shift_number(lambda left, right: left >> right)),
    ),
    "arith.andi": _logical(lambda left, right: left & right),
    "arith.ori": _logical(lambda left, right: left | right),
    "arith.xori": _logical(lambda left, right: left ^ right),
    **dict.fromkeys(("arith.maxsi", "arith.maxui", "arith.minsi", "arith.minui"), _extremum),
    **dict.fromkeys(("arith.extsi", "arith.extui", "arith.trunci", "tt.bitcast"), _same),
    "arith.cmpi": _compared,
    "arith.select": _selected,
}


def accesses(kernel: Function) -> Iterator[tuple[Operation, int | None]]:
    """Yield the loads and stores of blocks, each with the place of its mask among the operands."""
    for operation in kernel.body.all_operations():
        at = {"tt.load": 1, "tt.store": 2}.get(operation.name)
        if at is not None and operation.operand_types[0].shape:
            yield operation, at if len(operation.operands) > at else None
