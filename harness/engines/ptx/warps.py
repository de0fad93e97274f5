"""Instructions through which the lanes of a warp exchange values: shuffles, votes, reductions, elections."""

from collections.abc import Callable, Mapping

import numpy as np

from harness.engines.ptx.lane_types import DTYPES
from harness.engines.ptx.ptx_kernel import Pair, PtxInstruction
from harness.engines.ptx.threads import WARP, Array
from harness.engines.ptx.wave import Effect, RegisterRows, Wave
from harness.errors import CannotExecute


def warp_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect | None:
    """Return the effect of an instruction of a whole warp; None for another instruction."""
    build = _BUILDERS.get(instruction.root)
    return build(instruction, rows) if build is not None else None


def _by_warp(wave: Wave, values: Array) -> Array:
    return np.broadcast_to(values, (wave.size,)).reshape(-1, WARP)


def _taking_part(wave: Wave) -> Array:
    """Return for each warp and lane whether it executes the instruction."""
    if wave.mask is None:
        return np.ones((wave.size // WARP, WARP), np.bool_)
    return wave.mask.reshape(-1, WARP)


def _shuffle(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`shfl.sync`: each lane reads a register of another lane of its segment."""
    mode = instruction.words[2]
    destination, source, by, clamp = instruction.operands[:4]
    read = rows.reader(source, np.uint32)
    offset, bound = rows.reader(by, np.uint32), rows.reader(clamp, np.uint32)
    first, second = (destination.first, destination.second) if isinstance(destination, Pair) else (destination, None)
    write = rows.writer(first)
    write_valid = rows.writer(second) if second is not None else None
    lanes = np.arange(WARP, dtype=np.int64)

    def effect(wave: Wave) -> None:
        values = _by_warp(wave, read(wave))
        delta = (_by_warp(wave, offset(wave)) & np.uint32(31)).astype(np.int64)
        packed = _by_warp(wave, bound(wave)).astype(np.int64)
        limit, segment = packed & 31, packed >> 8 & 31
        highest = (lanes & segment) | (limit & ~segment)
        lowest = lanes & segment
        match mode:
            case "up":
                other = lanes - delta
                valid = other >= highest
            case "down":
                other = lanes + delta
                valid = other <= highest
            case "bfly":
                other = lanes ^ delta
                valid = other <= highest
            case "idx":
                other = lowest | (delta & ~segment)
                valid = other <= highest
            case _:
                raise CannotExecute(f"the PTX instruction {instruction.opcode}")
        other = np.where(valid, other, lanes)
        write(wave, np.take_along_axis(values, other, axis=1).reshape(-1))
        if write_valid is not None:
            write_valid(wave, valid.reshape(-1))

    return effect


def _vote(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    mode = next(word for word in ("ballot", "all", "any", "uni") if word in instruction.words)
    destination, source, members = instruction.operands
    read, write, mask = rows.reader(source, np.bool_), rows.writer(destination), rows.reader(members, np.uint32)

    def effect(wave: Wave) -> None:
        member = _members(wave, mask(wave)) & _taking_part(wave)
        votes = _by_warp(wave, read(wave))
        match mode:
            case "ballot":
                bits = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
                result = np.where(votes & member, bits, np.uint32(0)).sum(axis=1, dtype=np.uint32)
            case "all":
                result = (votes | ~member).all(axis=1)
            case "any":
                result = (votes & member).any(axis=1)
            case _:
                result = (votes | ~member).all(axis=1) | (~votes | ~member).all(axis=1)
        write(wave, np.repeat(result, WARP))

    return effect


def _members(wave: Wave, masks: Array) -> Array:
    lanes = np.arange(WARP, dtype=np.uint32)
    return (_by_warp(wave, masks) >> lanes & np.uint32(1)).astype(np.bool_)


_REDUCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "add": lambda values: values.sum(axis=1, dtype=values.dtype),
    "min": lambda values: np.fmin.reduce(values, axis=1) if values.dtype.kind == "f" else values.min(axis=1),
    "max": lambda values: np.fmax.reduce(values, axis=1) if values.dtype.kind == "f" else values.max(axis=1),
    "and": lambda values: np.bitwise_and.reduce(values, axis=1),
    "or": lambda values: np.bitwise_or.reduce(values, axis=1),
    "xor": lambda values: np.bitwise_xor.reduce(values, axis=1),
}


def _reduce(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`redux.sync`: one number of all lanes.  Every lane must take part, as in Triton's code."""
    operation = next((word for word in instruction.words if word in _REDUCTIONS), None)
    destination, source, _ = instruction.operands
    if operation is None or instruction.kind not in DTYPES:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    compute, keeps_nan, absolute = _REDUCTIONS[operation], "NaN" in instruction.words, "abs" in instruction.words
    read, write = rows.reader(source, DTYPES[instruction.kind]), rows.writer(destination)

    def effect(wave: Wave) -> None:
        wave.active_warps(instruction.opcode)
        values = _by_warp(wave, read(wave))
        values = np.abs(values) if absolute else values
        result = compute(values)
        if keeps_nan:
            result = np.where(np.isnan(values).any(axis=1), np.uint32(0x7FFFFFFF).view(np.float32), result)
        write(wave, np.repeat(result, WARP))

    return effect


def _elect(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`elect.sync`: the first member that takes part is the leader."""
    destination, members = instruction.operands
    assert isinstance(destination, Pair)
    write_lane, write_leads = rows.writer(destination.first), rows.writer(destination.second)
    mask = rows.reader(members, np.uint32)

    def effect(wave: Wave) -> None:
        member = _members(wave, mask(wave)) & _taking_part(wave)
        leader = member.argmax(axis=1)
        write_lane(wave, np.repeat(leader.astype(np.uint32), WARP))
        write_leads(wave, (np.arange(WARP) == leader[:, None]).reshape(-1))

    return effect


def _active_mask(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    write = rows.writer(instruction.operands[0])

    def effect(wave: Wave) -> None:
        bits = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
        write(wave, np.repeat(np.where(_taking_part(wave), bits, np.uint32(0)).sum(axis=1, dtype=np.uint32), WARP))

    return effect


def _match(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`match.any.sync`: which lanes hold the same value."""
    if "any" not in instruction.words:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    destination, source, members = instruction.operands
    read, mask = rows.reader(source, DTYPES[instruction.kind]), rows.reader(members, np.uint32)
    write = rows.writer(destination)

    def effect(wave: Wave) -> None:
        member = _members(wave, mask(wave)) & _taking_part(wave)
        values = _by_warp(wave, read(wave))
        same = (values[:, :, None] == values[:, None, :]) & member[:, None, :]
        bits = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
        write(wave, np.where(same, bits, np.uint32(0)).sum(axis=2, dtype=np.uint32).reshape(-1))

    return effect


_BUILDERS: Mapping[str, Callable[[PtxInstruction, RegisterRows], Effect]] = {
    "activemask": _active_mask,
    "elect": _elect,
    "match": _match,
    "redux": _reduce,
    "shfl": _shuffle,
    "vote": _vote,
}
