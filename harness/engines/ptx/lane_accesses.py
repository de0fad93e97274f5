"""Loads, stores and atomics, on every memory that an address can be of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.engines.ptx.lane_types import DTYPES
from harness.engines.ptx.memories import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW, Flaw
from harness.engines.ptx.ptx_kernel import Address, Operand, PtxInstruction, Sink, Symbol, parts
from harness.engines.ptx.threads import Array
from harness.engines.ptx.wave import Effect, Read, RegisterRows, Wave, Write
from harness.engines.virtual.operations.ptx_instructions import bits_dtype, parts_of, register_of, width
from harness.errors import CannotExecute

_SPACES = ("global", "shared", "param", "const", "local")


def access_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect | None:
    """Return the effect of a load, store or atomic; None for another instruction."""
    match instruction.root:
        case "ld" | "ldu":
            return _load(instruction, rows)
        case "st":
            return _store(instruction, rows)
        case "atom" | "red":
            return _atomic(instruction, rows)
        case _:
            return None


def space_of(instruction: PtxInstruction) -> str:
    """Return the memory that an instruction names; empty for generic addresses."""
    for word in instruction.words[1:]:
        plain = word.split("::")[0]
        if plain in _SPACES:
            return plain
    return ""


def _count(instruction: PtxInstruction) -> int:
    return next((int(word[1:]) for word in instruction.words if word in {"v2", "v4", "v8"}), 1)


@dataclass(frozen=True, slots=True, eq=False)
class LaneAccess:
    """What the accesses of one instruction have in common."""

    instruction: PtxInstruction
    address: Read
    dtype: type[Any]
    """The bits of one element."""
    count: int
    """The elements of a vector."""
    space: str

    @property
    def size_bytes(self) -> int:
        return self.count * np.dtype(self.dtype).itemsize

    def lanes(self, wave: Wave) -> tuple[Array, Array]:
        """Return the active threads, and their addresses."""
        active = wave.active()
        addresses = self.address(wave)
        addresses = np.broadcast_to(addresses, (wave.size,))[active]
        self._check_alignment(wave, active, addresses)
        return active, addresses

    def _check_alignment(self, wave: Wave, active: Array, addresses: Array) -> None:
        size = self.size_bytes
        if size > 1 and (off := addresses & (size - 1)).any():
            lane = int(active[np.flatnonzero(off)[0]])
            report(
                wave,
                self.instruction,
                "misaligned",
                lane,
                f"{size} bytes at an address {int(off[off != 0][0])} bytes after a multiple of {size}",
            )
            raise CannotExecute(f"a misaligned access: {self.instruction}")


def report(wave: Wave, instruction: PtxInstruction, kind: str, thread: int, text: str) -> None:
    """Record a flaw of one thread."""
    threads = wave.shape.threads
    wave.memories.flaws.add(Flaw(kind, instruction, int(wave.ctas[thread // threads]), thread % threads // 32, text))


def _access(instruction: PtxInstruction, operand: Operand, kind: str, rows: RegisterRows) -> LaneAccess:
    assert isinstance(operand, Address)
    address = rows.address(operand)
    bits = 128 if kind == "b128" else width(kind)
    if bits > 64:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    return LaneAccess(instruction, address, bits_dtype(bits), _count(instruction), space_of(instruction))


# --- loads -----------------------------------------------------------------------------------------------------------


def _load(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    destination, source = instruction.operands[:2]
    assert isinstance(source, Address)
    if space_of(instruction) == "param":
        return _load_parameter(instruction, source, rows)
    access = _access(instruction, source, instruction.kind, rows)
    writes = _writers(destination, instruction.kind, rows)

    def effect(wave: Wave) -> None:
        active, addresses = access.lanes(wave)
        for number, write in enumerate(writes):
            values = load_lanes(wave, access, active, addresses + number * np.dtype(access.dtype).itemsize)
            write(wave, spread(wave, active, values))

    return effect


def spread(wave: Wave, active: Array, values: Array) -> Array:
    """Return the values of active threads as values of all threads."""
    if wave.mask is None:
        return values
    whole = np.zeros(wave.size, values.dtype)
    whole[active] = values
    return whole


def _writers(destination: Operand, kind: str, rows: RegisterRows) -> list[Write]:
    """Return a writer for each element.  A load of signed numbers into a wider register extends their sign."""
    signed = DTYPES.get(kind) if kind.startswith("s") else None

    def wrap(write: Write) -> Write:
        return write if signed is None else lambda wave, values: write(wave, values.view(signed))

    return [wrap(rows.writer(part)) for part in parts(destination)]


def _load_parameter(instruction: PtxInstruction, source: Address, rows: RegisterRows) -> Effect:
    assert isinstance(source.base, Symbol)
    parameters = {parameter.name: parameter.offset for parameter in rows.kernel.parameters}
    if source.base.name not in parameters:
        raise CannotExecute(f"the PTX parameter {source.base.name}")
    dtype = bits_dtype(width(instruction.kind))
    first = parameters[source.base.name] + source.offset
    size = np.dtype(dtype).itemsize
    writes = _writers(instruction.operands[0], instruction.kind, rows)

    def effect(wave: Wave) -> None:
        content = wave.memories.parameters
        for number, write in enumerate(writes):
            begin = first + number * size
            write(wave, content[begin : begin + size].view(dtype))

    return effect


def load_lanes(wave: Wave, access: LaneAccess, active: Array, addresses: Array) -> Array:
    """Return one element for each active thread."""
    match access.space:
        case "shared":
            return _load_shared(wave, access, active, addresses)
        case "local":
            return wave.memories.local.view(access.dtype)[_local_index(wave, access, active, addresses)]
        case "":
            return _load_generic(wave, access, active, addresses)
        case _:
            return _load_global(wave, access, active, addresses)


def _load_generic(wave: Wave, access: LaneAccess, active: Array, addresses: Array) -> Array:
    values = np.zeros(len(active), access.dtype)
    for space, lanes, own in _by_window(addresses):
        part = LaneAccess(access.instruction, access.address, access.dtype, access.count, space)
        values[lanes] = load_lanes(wave, part, active[lanes], own)
    return values


def _by_window(addresses: Array) -> Sequence[tuple[str, Array, Array]]:
    """Return the memory, the lanes and the own addresses of generic addresses."""
    parts: list[tuple[str, Array, Array]] = []
    for space, first, end in (
        ("global", -(1 << 63), SHARED_WINDOW),
        ("shared", SHARED_WINDOW, LOCAL_WINDOW),
        ("local", LOCAL_WINDOW, PARAMETER_WINDOW),
        ("param", PARAMETER_WINDOW, (1 << 63) - 1),
    ):
        lanes = np.flatnonzero((addresses >= first) & (addresses < end))
        if len(lanes):
            parts.append((space, lanes, addresses[lanes] - max(0, first)))
    return parts


def _load_shared(wave: Wave, access: LaneAccess, active: Array, addresses: Array) -> Array:
    shared = wave.memories.shared
    size = np.dtype(access.dtype).itemsize
    places, outside = shared.offsets(addresses, wave.cta[active], size)
    if outside is not None:
        _report_outside(wave, access.instruction, active, addresses, outside)
        places = np.where(outside, 0, places)
    wave.asynchronous.shadow.loaded(access.instruction, active, places, size)
    return shared.view(access.dtype)[places // size]


def _report_outside(wave: Wave, instruction: PtxInstruction, active: Array, addresses: Array, outside: Array) -> None:
    first = int(np.flatnonzero(outside)[0])
    report(
        wave,
        instruction,
        "outside shared memory",
        int(active[first]),
        f"address {int(addresses[first]):#x} of {wave.memories.shared.size_bytes} bytes",
    )


def _local_index(wave: Wave, access: LaneAccess, active: Array, addresses: Array) -> Array:
    local = wave.memories.local
    size = np.dtype(access.dtype).itemsize
    if ((addresses < 0) | (addresses + size > local.size_bytes)).any():
        raise CannotExecute("an access outside local memory")
    return (active * local.stride + addresses) // size


def _load_global(wave: Wave, access: LaneAccess, active: Array, addresses: Array) -> Array:
    size = np.dtype(access.dtype).itemsize
    if access.space == "param":
        return wave.memories.parameters.view(access.dtype)[addresses // size]
    parts, stray = wave.memories.global_memory.parts(addresses, size)
    watch = wave.memories.on_global
    if stray is not None:
        watch.stray(access.instruction, addresses[stray], programs_of(wave, active[stray]), size)
    if len(parts) == 1 and stray is None:
        (part,) = parts
        values = part.region.view(access.dtype)[part.offsets // size]
        watch.loaded(access.instruction, part, values, programs_of(wave, active))
        return values
    values = np.zeros(len(active), access.dtype)
    for part in parts:
        values[part.lanes] = part.region.view(access.dtype)[part.offsets // size]
        watch.loaded(access.instruction, part, values[part.lanes], programs_of(wave, active[part.lanes]))
    return values


def programs_of(wave: Wave, threads: Array) -> Array:
    """Return the linear id of the program of each thread."""
    return wave.ctas[threads // wave.shape.threads] // wave.shape.cluster


# --- stores ----------------------------------------------------------------------------------------------------------


def _store(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    destination, source = instruction.operands[:2]
    if "async" in instruction.words:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    access = _access(instruction, destination, instruction.kind, rows)
    reads = [rows.reader(part, access.dtype) for part in parts(source)]

    def effect(wave: Wave) -> None:
        active, addresses = access.lanes(wave)
        for number, read in enumerate(reads):
            values = np.broadcast_to(read(wave), (wave.size,))[active]
            store_lanes(wave, access, active, addresses + number * np.dtype(access.dtype).itemsize, values)

    return effect


def store_lanes(wave: Wave, access: LaneAccess, active: Array, addresses: Array, values: Array) -> None:
    """Store one element for each active thread; of threads that store to one place, the last one wins."""
    match access.space:
        case "shared":
            store_shared(wave, access.instruction, active, addresses, values)
        case "local":
            wave.memories.local.view(access.dtype)[_local_index(wave, access, active, addresses)] = values
        case "":
            for space, lanes, own in _by_window(addresses):
                part = LaneAccess(access.instruction, access.address, access.dtype, access.count, space)
                store_lanes(wave, part, active[lanes], own, values[lanes])
        case _:
            store_global(wave, access.instruction, active, addresses, values)


def store_shared(wave: Wave, instruction: PtxInstruction, active: Array, addresses: Array, values: Array) -> None:
    shared = wave.memories.shared
    size = values.dtype.itemsize
    places, outside = shared.offsets(addresses, wave.cta[active], size)
    if outside is not None:
        _report_outside(wave, instruction, active, addresses, outside)
        active, places, values = active[~outside], places[~outside], values[~outside]
    wave.asynchronous.shadow.stored(instruction, active, places, size, values)
    shared.view(values.dtype.type)[places // size] = values
    for byte in range(size):
        shared.written[places + byte] = True


def store_global(wave: Wave, instruction: PtxInstruction, active: Array, addresses: Array, values: Array) -> None:
    size = values.dtype.itemsize
    parts, stray = wave.memories.global_memory.parts(addresses, size)
    watch = wave.memories.on_global
    if stray is not None:
        watch.stray(instruction, addresses[stray], programs_of(wave, active[stray]), size)
    for part in parts:
        watch.stored(instruction, part, size, programs_of(wave, active[part.lanes]))
        bits = bits_dtype(8 * size)
        memory, index, new = part.region.view(bits), part.offsets // size, values[part.lanes].view(bits)
        wave.memories.global_memory.changes += bool((memory[index] != new).any())
        memory[index] = new


# --- atomics ---------------------------------------------------------------------------------------------------------

Change = tuple[Sequence[Array], Callable[[Array, Sequence[Array]], Array]]
"""The operands of an atomic for each thread, and the new bits of elements from their old bits and the operands."""
Update = Callable[[Array, Array], Array]
"""Returns the new bits of elements, from their old bits and the operands."""


def _atomic(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    kind, words = instruction.kind, instruction.words
    operands = list(instruction.operands)
    result: Operand = Sink() if words[0] == "red" else operands.pop(0)
    access = _access(instruction, operands[0], kind, rows)
    compare = "cas" in words
    reads = [[rows.reader(part, access.dtype) for part in parts(operand)] for operand in operands[1:]]
    writes = [rows.writer(part) for part in parts(result)]
    update = _swap if compare else _update(instruction)

    def effect(wave: Wave) -> None:
        active, addresses = access.lanes(wave)
        for number in range(access.count):
            values = [np.broadcast_to(group[number](wave), (wave.size,))[active] for group in reads]
            own = addresses + number * np.dtype(access.dtype).itemsize
            old = atomic_lanes(wave, access, active, own, (values, update))
            write = writes[min(number, len(writes) - 1)]
            write(wave, spread(wave, active, old))

    return effect


def _swap(old: Array, values: Sequence[Array]) -> Array:
    expected, new = values
    return np.where(old == expected, new, old)


def _update(instruction: PtxInstruction) -> Callable[[Array, Sequence[Array]], Array]:
    operation = next((word for word in instruction.words if word in _OPERATIONS), "")
    return update_of(operation, instruction.kind, instruction)


def update_of(operation: str, kind: str, instruction: PtxInstruction) -> Callable[[Array, Sequence[Array]], Array]:
    """Return what an atomic operation does to the bits of elements of a type.

    Raises:
        CannotExecute: the operation is not known.
    """
    if not operation:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    compute = _OPERATIONS[operation]
    if kind in DTYPES:
        dtype = DTYPES[kind]
        return lambda old, values: compute(old.view(dtype), values[0].view(dtype)).astype(dtype).view(old.dtype)
    return lambda old, values: register_of(compute(parts_of(old, kind), parts_of(values[0], kind)), kind)


_OPERATIONS: Mapping[str, Update] = {
    "add": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda _, new: new,
    "min": lambda old, new: np.fmin(old, new) if old.dtype.kind == "f" else np.minimum(old, new),
    "max": lambda old, new: np.fmax(old, new) if old.dtype.kind == "f" else np.maximum(old, new),
    "inc": lambda old, limit: np.where(old >= limit, 0, old + 1).astype(old.dtype),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - 1).astype(old.dtype),
}


def atomic_lanes(wave: Wave, access: LaneAccess, active: Array, addresses: Array, change: Change) -> Array:
    """Update one element for each active thread, in the order of threads, and return the old elements."""
    values, update = change
    size = np.dtype(access.dtype).itemsize
    if access.space == "shared":
        shared = wave.memories.shared
        places, outside = shared.offsets(addresses, wave.cta[active], size)
        if outside is not None:
            _report_outside(wave, access.instruction, active, addresses, outside)
            places = np.where(outside, 0, places)
        wave.asynchronous.shadow.updated(access.instruction, active, places, size)
        return _updated(shared.view(access.dtype), places // size, values, update)
    old = np.zeros(len(active), access.dtype)
    if not access.space:
        for space, lanes, own in _by_window(addresses):
            part = LaneAccess(access.instruction, access.address, access.dtype, access.count, space)
            old[lanes] = atomic_lanes(wave, part, active[lanes], own, ([value[lanes] for value in values], update))
        return old
    parts, stray = wave.memories.global_memory.parts(addresses, size)
    watch = wave.memories.on_global
    if stray is not None:
        watch.stray(access.instruction, addresses[stray], programs_of(wave, active[stray]), size)
    for part in parts:
        watch.updated(access.instruction, part, size, programs_of(wave, active[part.lanes]))
        there = [value[part.lanes] for value in values]
        memory, index = part.region.view(access.dtype), part.offsets // size
        before = memory[index]
        old[part.lanes] = _updated(memory, index, there, update)
        wave.memories.global_memory.changes += before.tobytes() != memory[index].tobytes()
    return old


def _updated(
    memory: Array, index: Array, values: Sequence[Array], update: Callable[[Array, Sequence[Array]], Array]
) -> Array:
    """Update elements one thread after the other: in each round the next thread of every element."""
    old = np.zeros(len(index), memory.dtype)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, np.int64)
    rank = np.arange(len(ordered)) - np.repeat(begins, np.diff(np.r_[begins, len(ordered)]))
    rounds = np.argsort(rank, kind="stable")
    ends = np.cumsum(np.bincount(rank)) if len(rank) else []
    first = 0
    for end in ends:
        lanes = order[rounds[first:end]]
        before = memory[index[lanes]]
        old[lanes] = before
        memory[index[lanes]] = update(before, [value[lanes] for value in values])
        first = end
    return old


# --- tiles of asynchronous work ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Issue:
    """The issue of asynchronous work."""

    wave: Wave
    instruction: PtxInstruction
    threads: Array
    """For each tile a thread that issued it."""
    known: object
    """What the shadow of shared memory knew then."""


def read_tile(issue: Issue, addresses: Array, size_bytes: int, ctas: Array | None = None) -> Array:
    """Return the elements that asynchronous work reads from shared memory.

    Args:
        issue: who issued the work.
        addresses: for each tile the addresses of its elements.
        size_bytes: the bytes of an element.
        ctas: for each tile the CTA that holds it, as its place in the wave; None for those of the threads.
    """
    wave, instruction, threads = issue.wave, issue.instruction, issue.threads
    shared = wave.memories.shared
    of_tile = threads.reshape(-1, *(1,) * (addresses.ndim - 1))
    holders = (wave.cta[threads] if ctas is None else ctas).reshape(of_tile.shape)
    places, outside = shared.offsets(addresses, np.broadcast_to(holders, addresses.shape), size_bytes)
    if outside is not None:
        report(wave, instruction, "outside shared memory", int(threads[0]), f"of {shared.size_bytes} bytes")
        places = np.where(outside, 0, places)
    by_thread = np.broadcast_to(of_tile, addresses.shape).reshape(-1)
    wave.asynchronous.shadow.read_late(instruction, by_thread, places.reshape(-1), size_bytes, issue.known)
    return shared.view(bits_dtype(8 * size_bytes))[places // size_bytes]
