"""The stores that the lanes of a loaded block reach, lane by lane along one axis.

A load often has lanes whose values no store keeps: the columns beyond the end of a matrix, which the store masks off.
"""

from collections.abc import Iterator, Mapping

from harness.engines.ttir.ir import Function, Operation, TtirRegion
from harness.engines.ttir.reach import yielded

_LANEWISE = frozenset({"tt.fp_to_fp", "tt.bitcast", "tt.clampf", "tt.precise_divf", "tt.precise_sqrt", "tt.broadcast"})
_CARRIED = 3
"""The first operand of `scf.for` that it carries."""
_STORED = 1
"""The place of the stored value among the operands of `tt.store`."""

Use = tuple[Operation, int]
"""An operation, and the place of a value among its operands."""


class _UsedOtherwise(Exception):
    """A lane is used by something else than a store of the same lane."""


def stores_of_lanes(kernel: Function, load: Operation, axis: int) -> Mapping[int, int] | None:
    """Return the stores that keep values of the load's lanes, by the id of the operation, each with the lanes' axis.

    None if a lane may also be used otherwise: in a sum over the axis, as an index, by an unknown operation.
    """
    uses, forwarded = dict[int, list[Use]](), dict[int, list[int]]()
    _collect(kernel.body, uses, forwarded)
    (first,) = load.results
    axes, ahead = {first: axis}, [first]
    stores = dict[int, int]()
    try:
        while ahead:
            slot = ahead.pop()
            reached = [(target, axes[slot]) for target in forwarded.get(slot, ())]
            for operation, at in uses.get(slot, ()):
                if operation.name == "tt.store" and at == _STORED:
                    if stores.setdefault(id(operation), axes[slot]) != axes[slot]:
                        return None
                else:
                    along = _axis_after(operation, at, axes[slot])
                    reached += [(result, along) for result in operation.results]
            for target, along in reached:
                if target not in axes:
                    axes[target] = along
                    ahead.append(target)
                elif axes[target] != along:
                    return None
    except _UsedOtherwise:
        return None
    return stores


def _collect(region: TtirRegion, uses: dict[int, list[Use]], forwarded: dict[int, list[int]]) -> None:
    """Enter who uses each slot, and which slots have its value under other names: those of loops and conditionals."""
    for operation in (operation for block in region.blocks for operation in block.operations):
        for source, target in _renamed(operation):
            forwarded.setdefault(source, []).append(target)
        if operation.name not in {"scf.yield", "scf.for", "scf.if"}:
            for at, slot in enumerate(operation.operands):
                uses.setdefault(slot, []).append((operation, at))
        for inner in operation.regions:
            _collect(inner, uses, forwarded)


def _renamed(operation: Operation) -> Iterator[tuple[int, int]]:
    if operation.name == "scf.for":
        (body,) = operation.regions
        for inside, result, first, last in zip(
            body.entry.arguments[1:], operation.results, operation.operands[_CARRIED:], yielded(body), strict=True
        ):
            yield from ((first, inside), (first, result), (last, inside), (last, result))
    elif operation.name == "scf.if":
        for region in operation.regions:
            yield from zip(yielded(region), operation.results, strict=False)


def _axis_after(operation: Operation, at: int, axis: int) -> int:
    """Return where an operation has the axis of an operand in its results.

    Raises:
        _UsedOtherwise: a lane of a result depends on several lanes along the axis, or this is not known.
    """
    name, rank = operation.name, len(operation.operand_types[at].shape)
    own = int(str(operation.attributes.get("axis", -1)))
    if name.startswith(("arith.", "math.")) or name in _LANEWISE:
        return axis
    if name == "tt.expand_dims":
        return axis if axis < own else axis + 1
    if name == "tt.trans":
        order = operation.attributes["order"]
        assert isinstance(order, tuple)
        return order.index(axis)
    if name == "tt.reduce" and axis != own:
        return axis if axis < own else axis - 1
    if name == "tt.dot" and (at == 2 or axis != rank - (1 if at == 0 else 2)):
        return axis
    raise _UsedOtherwise
