"""Bulk copies between global and shared memory: whole tiles of a tensor map, or a run of bytes.

A copy to shared memory lands when its mbarrier is waited for and nothing else can run.  A copy to global memory reads
its tile when it is waited for.  So data that is used too early, or a tile that is overwritten too early, shows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from harness.engines.ptx.descriptors import swizzled
from harness.engines.ptx.lane_accesses import (
    Issue,
    LaneAccess,
    atomic_lanes,
    load_lanes,
    read_tile,
    report,
    store_global,
    store_shared,
    update_of,
)
from harness.engines.ptx.memories import RANK_SHIFT
from harness.engines.ptx.ptx_kernel import Address, Immediate, Operand, PtxInstruction
from harness.engines.ptx.tensor_maps import LAYOUT, MAP_BYTES, NIBBLES_PER_BYTE, TensorMap
from harness.engines.ptx.threads import WARP, Array
from harness.engines.ptx.wave import Effect, Read, RegisterRows, Wave
from harness.errors import CannotExecute

_DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_NANS = {2: {True: 0x7FFF, False: 0}, 4: {True: 0x7FFFFFFF, False: 0}, 8: {True: 0x7FFFFFFFFFFFFFFF, False: 0}}
ALIGNMENT = 16
SHARED_ALIGNMENT = 128
"""The addresses in shared memory that a tile may begin at are multiples of this."""
REDUCTIONS = frozenset({"add", "min", "max", "and", "or", "xor", "inc", "dec"})


def bulk_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """Return the effect of a bulk copy, or of an instruction on tensor maps.

    Raises:
        CannotExecute: the instruction is not known.
    """
    words = instruction.words
    match words[0]:
        case "mapa":
            return _mapped(instruction, rows)
        case "tensormap":
            return _replaced(instruction, rows) if words[1] == "replace" else _published(instruction, rows)
        case _:
            pass
    if "commit_group" in words:
        return lambda wave: wave.asynchronous.stores.commit(wave.mask_of_active())
    if "wait_group" in words:
        (count,) = instruction.operands
        assert isinstance(count, Immediate)
        return lambda wave: wave.asynchronous.stores.wait(wave.mask_of_active(), count.value)
    if "prefetch" in words:
        return lambda _: None
    if "tensor" in words:
        return _stored_tile(instruction, rows) if words[-1] == "bulk_group" else _loaded_tile(instruction, rows)
    if "mbarrier::complete_tx::bytes" in words and "global" in words:
        return _loaded_bytes(instruction, rows)
    raise CannotExecute(f"the PTX instruction {instruction.opcode}")


def _mapped(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`mapa`: the address of the same variable in another CTA of the cluster."""
    destination, source, rank = instruction.operands
    write, read, number = rows.writer(destination), rows.reader(source, np.uint32), rows.reader(rank, np.uint32)
    inside = np.uint32((1 << RANK_SHIFT) - 1)
    return lambda wave: write(wave, read(wave) & inside | (number(wave) + np.uint32(1)) << np.uint32(RANK_SHIFT))


# --- tensor maps in memory -------------------------------------------------------------------------------------------


def _replaced(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`tensormap.replace`: sets one field of a map in shared memory."""
    field = instruction.words[3]
    address, *rest = instruction.operands
    if field not in (LAYOUT.names or ()) or not any(word.startswith("shared") for word in instruction.words):
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    kind = LAYOUT[field]
    element = kind.base
    index = 0
    if kind.shape:
        number = rest.pop(0)
        assert isinstance(number, Immediate)
        index = number.value
    offset = LAYOUT.fields[field][1] + index * element.itemsize  # type: ignore[index]
    read, where = rows.reader(rest[0], _DTYPES[8]), rows.address(address)

    def effect(wave: Wave) -> None:
        active = wave.active()
        addresses = np.broadcast_to(where(wave), (wave.size,))[active] + offset
        values = np.broadcast_to(read(wave), (wave.size,))[active].astype(element)
        store_shared(wave, instruction, active, addresses, values)

    return effect


def _published(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`tensormap.cp_fenceproxy`: a warp copies a map from shared to global memory."""
    destination, source = instruction.operands[:2]
    target, origin = rows.address(destination), rows.address(source)
    access = LaneAccess(instruction, origin, np.uint32, 1, "shared")

    def effect(wave: Wave) -> None:
        warps = wave.active_warps(instruction.opcode)
        threads = (warps[:, None] * WARP + np.arange(WARP)).reshape(-1)
        each = np.tile(np.arange(WARP) * (MAP_BYTES // WARP), len(warps))
        content = load_lanes(wave, access, threads, np.broadcast_to(origin(wave), (wave.size,))[threads] + each)
        store_global(wave, instruction, threads, np.broadcast_to(target(wave), (wave.size,))[threads] + each, content)

    return effect


def _tensor_map(wave: Wave, instruction: PtxInstruction, thread: int, address: int) -> TensorMap:
    access = LaneAccess(instruction, lambda _: np.zeros(1), np.uint8, 1, "")
    threads = np.full(MAP_BYTES, thread)
    content = load_lanes(wave, access, threads, address + np.arange(MAP_BYTES))
    try:
        return TensorMap.decode(content)
    except ValueError as error:
        raise CannotExecute(f"{instruction.opcode}: {error}") from None


# --- tiles -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _TileForm:
    """The operands of one instruction that copies a tile."""

    instruction: PtxInstruction
    tensor_map: Read
    coordinates: tuple[Read, ...]
    shared: Read
    gathers: bool

    @classmethod
    def of(cls, instruction: PtxInstruction, tensor: Operand, shared: Operand, rows: RegisterRows) -> "_TileForm":
        assert isinstance(tensor, Address)
        if any(word.startswith("im2col") for word in instruction.words):
            raise CannotExecute(f"the PTX instruction {instruction.opcode}")
        return cls(
            instruction=instruction,
            tensor_map=rows.address(tensor),
            coordinates=tuple(rows.reader(part, np.int32) for part in tensor.coordinates),
            shared=rows.address(shared),
            gathers=any(word in {"tile::gather4", "tile::scatter4"} for word in instruction.words),
        )

    def tile(self, wave: Wave, thread: int) -> "_Tile":
        """Return the tile that a thread copies."""

        def at(read: Read) -> int:
            return int(np.broadcast_to(read(wave), (wave.size,))[thread])

        tensor = _tensor_map(wave, self.instruction, thread, at(self.tensor_map))
        first = tuple(at(read) for read in self.coordinates)
        rows: tuple[int, ...] = ()
        if tensor.is_padded:
            first = (first[0] // NIBBLES_PER_BYTE, *first[1:])
        if self.gathers:
            rows, first = first[1:], (first[0], 0)
            tensor = replace(tensor, box=(tensor.box[0], len(rows)))
        if len(first) != len(tensor.box):
            raise CannotExecute(f"{self.instruction.opcode} with a tensor map of rank {len(tensor.box)}")
        return _Tile(
            instruction=self.instruction,
            thread=thread,
            tensor=tensor,
            first=first,
            rows=rows,
            shared=at(self.shared),
            issued=wave.asynchronous.shadow.snapshot(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tile:
    """One tile on its way."""

    instruction: PtxInstruction
    thread: int
    tensor: TensorMap
    first: tuple[int, ...]
    rows: tuple[int, ...]
    shared: int
    """The address of the tile in shared memory."""
    issued: object

    @property
    def size_bytes(self) -> int:
        return self.tensor.box_bytes

    def check(self, wave: Wave) -> None:
        """Report addresses that a GPU faults on."""
        for name, number, multiple in (
            ("global", self.tensor.address, ALIGNMENT),
            ("shared", self.shared, SHARED_ALIGNMENT),
        ):
            if number % multiple:
                report(wave, self.instruction, "misaligned", self.thread, f"a tile in {name} memory at {number:#x}")
        for stride in self.tensor.strides[1:]:
            if stride % ALIGNMENT:
                report(wave, self.instruction, "misaligned", self.thread, f"a tensor with a stride of {stride} bytes")

    def shared_addresses(self) -> Array:
        return swizzled(self.shared + self.tensor.box_offsets(), self.tensor.swizzle)

    def global_content(self, wave: Wave) -> Array:
        """Return the tile's elements, with the fill for those outside the tensor."""
        size = self.tensor.element_bytes
        dtype = _DTYPES[size]
        addresses, inside = self.tensor.places(self.first, self.rows)
        fill = _NANS.get(size, {}).get(self.tensor.fills_with_nan and bool(self.tensor.kind), 0)
        content = np.full(inside.shape, fill, dtype)
        access = LaneAccess(self.instruction, lambda _: np.zeros(1), dtype, 1, "global")
        lanes = addresses[inside]
        content[inside] = load_lanes(wave, access, np.full(len(lanes), self.thread), lanes)
        return self.tensor.padded(content)

    def put(self, wave: Wave, ctas: tuple[int, ...], content: Array) -> None:
        """Write the tile to the shared memory of CTAs, given by their place in the wave."""
        size = content.dtype.itemsize
        own = (self.shared_addresses() & ((1 << RANK_SHIFT) - 1)).reshape(-1)
        shared = wave.memories.shared
        for cta in ctas:
            places, outside = shared.offsets(own, np.full(len(own), cta), size)
            if outside is not None:
                report(wave, self.instruction, "outside shared memory", self.thread, f"of {shared.size_bytes} bytes")
                continue
            threads = np.full(len(own), self.thread)
            wave.asynchronous.shadow.landed(self.instruction, threads, places, size, self.issued)
            shared.view(content.dtype.type)[places // size] = content.reshape(-1)
            shared.written[places[:, None] + np.arange(size)] = True


def _loaded_tile(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    destination, tensor, barrier, *rest = instruction.operands
    form = _TileForm.of(instruction, tensor, destination, rows)
    return _signalling(instruction, rows, barrier, rest, form.tile)


def _signalling(
    instruction: PtxInstruction,
    rows: RegisterRows,
    barrier: Operand,
    rest: list[Operand],
    tile_of: Callable[[Wave, int], "_Tile | _Bytes"],
) -> Effect:
    """Return a copy to shared memory that completes bytes of an mbarrier."""
    signal = rows.address(barrier)
    is_multicast = "multicast::cluster" in instruction.words
    members = rows.reader(rest[0], np.uint16) if is_multicast else None

    def effect(wave: Wave) -> None:
        barriers = wave.barriers
        signals = np.broadcast_to(signal(wave), (wave.size,))
        for thread in wave.active().tolist():
            tile = tile_of(wave, thread)
            tile.check(wave)
            cta = thread // wave.shape.threads
            first = cta // wave.shape.cluster * wave.shape.cluster
            if members is not None:
                mask = int(np.broadcast_to(members(wave), (wave.size,))[thread])
                ctas = tuple(first + rank for rank in range(wave.shape.cluster) if mask >> rank & 1)
                keys = tuple(barriers.key(target, int(signals[thread]) & 0xFFFFFF) for target in ctas)
            else:
                rank = tile.shared >> RANK_SHIFT
                ctas = (first + rank - 1,) if rank else (cta,)
                keys = (barriers.key(cta, int(signals[thread])),)
            wave.asynchronous.bulk.append(_Load(wave, tile, ctas, keys))

    return effect


@dataclass(frozen=True, slots=True)
class _Load:
    """A copy to shared memory that has been issued."""

    wave: Wave
    tile: "_Tile | _Bytes"
    ctas: tuple[int, ...]
    keys: tuple[tuple[int, int], ...]

    def land(self) -> None:
        wave = self.wave
        self.tile.put(wave, self.ctas, self.tile.global_content(wave))
        barriers = wave.barriers
        for key in self.keys:
            wave.asynchronous.shadow.signalled(self.tile.thread, key)
            barriers.at(key, self.tile.instruction).transactions -= self.tile.size_bytes
            barriers.settle(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bytes:
    """A run of bytes on its way to shared memory."""

    instruction: PtxInstruction
    thread: int
    address: int
    size_bytes: int
    shared: int
    issued: object

    def check(self, wave: Wave) -> None:
        if (self.address | self.shared | self.size_bytes) % ALIGNMENT:
            report(wave, self.instruction, "misaligned", self.thread, f"{self.size_bytes} bytes at {self.address:#x}")

    def global_content(self, wave: Wave) -> Array:
        access = LaneAccess(self.instruction, lambda _: np.zeros(1), np.uint32, 1, "global")
        addresses = self.address + 4 * np.arange(self.size_bytes // 4)
        return load_lanes(wave, access, np.full(len(addresses), self.thread), addresses)

    def put(self, wave: Wave, ctas: tuple[int, ...], content: Array) -> None:
        shared = wave.memories.shared
        own = (self.shared & ((1 << RANK_SHIFT) - 1)) + 4 * np.arange(len(content))
        for cta in ctas:
            places, outside = shared.offsets(own, np.full(len(own), cta), 4)
            if outside is not None:
                report(wave, self.instruction, "outside shared memory", self.thread, f"of {shared.size_bytes} bytes")
                continue
            wave.asynchronous.shadow.landed(self.instruction, np.full(len(own), self.thread), places, 4, self.issued)
            shared.view(np.uint32)[places // 4] = content
            shared.written[places[:, None] + np.arange(4)] = True


def _loaded_bytes(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    destination, source, size, barrier, *rest = instruction.operands
    target, origin, length = rows.address(destination), rows.address(source), rows.reader(size, np.uint32)

    def tile_of(wave: Wave, thread: int) -> _Bytes:
        def at(read: Read) -> int:
            return int(np.broadcast_to(read(wave), (wave.size,))[thread])

        return _Bytes(
            instruction=instruction,
            thread=thread,
            address=at(origin),
            size_bytes=at(length),
            shared=at(target),
            issued=wave.asynchronous.shadow.snapshot(),
        )

    return _signalling(instruction, rows, barrier, rest, tile_of)


# --- stores ----------------------------------------------------------------------------------------------------------


def _stored_tile(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    tensor, source = instruction.operands[:2]
    form = _TileForm.of(instruction, tensor, source, rows)
    reduction = next((word for word in instruction.words if word in REDUCTIONS), "")

    def effect(wave: Wave) -> None:
        for thread in wave.active().tolist():
            tile = form.tile(wave, thread)
            tile.check(wave)
            if tile.tensor.is_padded:
                raise CannotExecute(f"{instruction.opcode} of padded elements of 4 bits")
            own = np.zeros(wave.size, np.bool_)
            own[thread] = True
            wave.asynchronous.stores.issue(own, _Store(wave, tile, reduction))

    return effect


@dataclass(frozen=True, slots=True)
class _Store:
    """A copy to global memory that has been issued."""

    wave: Wave
    tile: _Tile
    reduction: str

    def land(self, landing: Array) -> None:
        wave, tile = self.wave, self.tile
        if not landing[tile.thread]:
            return
        size = tile.tensor.element_bytes
        addresses, inside = tile.tensor.places(tile.first, tile.rows, has_tail=not (self.reduction or tile.rows))
        issue = Issue(wave, tile.instruction, np.array([tile.thread]), tile.issued)
        content = read_tile(issue, tile.shared_addresses()[None], size)[0]
        lanes, values = addresses[inside], content[inside]
        if self.reduction:
            _reduce(wave, tile, self.reduction, lanes, values)
        else:
            store_global(wave, tile.instruction, np.full(len(lanes), tile.thread), lanes, values)


def _reduce(wave: Wave, tile: _Tile, reduction: str, addresses: Array, values: Array) -> None:
    """Update global memory by a tile."""
    threads = np.full(len(addresses), tile.thread)
    size = tile.tensor.element_bytes
    kind = tile.tensor.kind or f"u{8 * size}"
    update = update_of(reduction, kind, tile.instruction)
    access = LaneAccess(tile.instruction, lambda _: np.zeros(1), _DTYPES[size], 1, "global")
    atomic_lanes(wave, access, threads, addresses, ([values], update))
