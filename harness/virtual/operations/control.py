"""Control flow: `scf.for`, `scf.if`, `scf.while`, calls.  Divergent programs run under masks and are merged."""

from collections.abc import Mapping

import numpy as np

from harness.errors import CannotExecute
from harness.virtual.machine import Handler, Lap, Machine, RunsAway, Value, Values
from harness.virtual.numbers.elements import Array, carrier, unsigned
from harness.virtual.ttir.ir import Operation


def for_loop(machine: Machine, operation: Operation, frame: list[Value]) -> Values:
    """Counts trips first: programs with equal counts run together without a mask, whatever their bounds are.

    Raises:
        RunsAway: they are more than the machine's `most_trips`, and more than its step limit.
    """
    lower, upper, step = (_scalar(frame[slot]) for slot in operation.operands[:3])
    carried: Values = tuple(frame[slot] for slot in operation.operands[3:])
    trips = _trips(lower, upper, step, is_unsigned=bool(operation.attributes.get("unsigned")))
    if machine.active is not None:
        trips = np.where(machine.active, trips, 0)
    kind = carrier(operation.operand_types[0].element)
    body = operation.regions[0]
    most = int(trips.max()) if len(trips) else 0
    if most > max(machine.most_trips, machine.step_limit):
        raise RunsAway(f"a loop makes {most:,} trips and waits for nobody")
    alike = int(trips.min()) == most or (machine.active is not None and bool((trips[machine.active] == most).all()))
    for trip in range(most):
        index = (lower + (step * trip).astype(kind)).astype(kind)
        if alike:
            carried = machine.region(body, frame, (index, *carried))
        else:
            alive = np.broadcast_to(trips > trip, (machine.width,))
            with machine.only(alive):
                carried = machine.merge(alive, machine.region(body, frame, (index, *carried)), carried)
    return carried


def _trips(lower: Array, upper: Array, step: Array, *, is_unsigned: bool) -> Array:
    if is_unsigned:
        lower, upper, step = unsigned(lower), unsigned(upper), unsigned(step)
    wide_lower, wide_upper, wide_step = (bound.astype(np.int64) for bound in (lower, upper, step))
    return np.maximum(0, -((wide_lower - wide_upper) // np.maximum(wide_step, 1)))


def if_else(machine: Machine, operation: Operation, frame: list[Value]) -> Values:
    """One way where all active programs agree; else both, under masks."""
    votes, some_yes, some_no = machine.votes(_scalar(frame[operation.operands[0]]))
    then = operation.regions[0]
    otherwise = operation.regions[1] if len(operation.regions) > 1 else None
    if not some_no:
        return machine.region(then, frame)
    if not some_yes:
        return machine.region(otherwise, frame) if otherwise else ()
    yes = np.broadcast_to(votes, (machine.width,))
    no = ~yes if machine.active is None else ~yes & machine.active
    with machine.only(yes):
        taken = machine.region(then, frame)
    if otherwise is None:
        return ()
    with machine.only(no):
        declined = machine.region(otherwise, frame)
    return machine.merge(yes, taken, declined)


def while_loop(machine: Machine, operation: Operation, frame: list[Value]) -> Values:
    """Runs until every active program has left; those that have left keep their values."""
    before, body = operation.regions
    carried: Values = tuple(frame[slot] for slot in operation.operands)
    alive = np.ones(machine.width, np.bool_) if machine.active is None else machine.active.copy()
    results: Values | None = None
    lap: Lap = None
    while True:
        with machine.only(alive):
            condition, *handed = machine.region(before, frame, carried)
            votes = np.broadcast_to(_scalar(condition), (machine.width,)) & alive
        leaving = alive & ~votes
        results = tuple(handed) if results is None else machine.merge(leaving, tuple(handed), results)
        if not votes.any():
            machine.left_loop()
            return results
        alive = votes
        with machine.only(alive):
            carried = machine.region(body, frame, tuple(handed))
        lap = machine.back_edge(lap, carried)


def call(machine: Machine, operation: Operation, frame: list[Value]) -> Values:
    """A device function that was not inlined."""
    callee = machine.module.functions.get(str(operation.attributes["callee"]))
    if callee is None:
        raise CannotExecute(f"no function {operation.attributes['callee']}")
    return machine.call(callee, [frame[slot] for slot in operation.operands])


def _scalar(value: Value) -> Array:
    if not isinstance(value, np.ndarray):
        raise CannotExecute("a pointer as a loop bound or condition")
    return value


HANDLERS: Mapping[str, Handler] = {
    "scf.for": for_loop,
    "scf.if": if_else,
    "scf.while": while_loop,
    "tt.call": call,
}
