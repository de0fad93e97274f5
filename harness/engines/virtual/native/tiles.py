"""SSA values during lowering: tiles, which are lazy or read a buffer in the arena, and pointers."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.engines.virtual.native.lane_values import LaneValues, as_vector, intrinsic_suffix, register, vector_type
from harness.engines.virtual.native.llvm_text import Assembly, plus, times

ALIGNMENT = 64


class Arena:
    """The allocator of one program's buffers: assigns offsets during lowering and reuses those of freed buffers."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._free: list[tuple[int, int]] = []

    def allocate(self, size_bytes: int) -> tuple[int, int]:
        """Allocate a span; returns its offset and its size."""
        size = -(-size_bytes // ALIGNMENT) * ALIGNMENT
        fitting = [span for span in self._free if span[1] >= size]
        if fitting:
            offset, size_of_span = min(fitting, key=lambda span: span[1])
            self._free.remove((offset, size_of_span))
            if size_of_span > size:
                self._free.append((offset + size, size_of_span - size))
            return offset, size
        self.size_bytes += size
        return self.size_bytes - size, size

    def release(self, span: tuple[int, int]) -> None:
        """Free a span and join it with its free neighbours."""
        offset, size = span
        for other in [free for free in self._free if free[0] + free[1] == offset or free[0] == offset + size]:
            self._free.remove(other)
            offset, size = min(offset, other[0]), size + other[1]
        self._free.append((offset, size))


Index = tuple[LaneValues, ...]
"""One i64 position for each axis of a tile; at most one of them is a vector."""


@dataclass(eq=False, slots=True)
class Scope:
    """A cache of the lanes that were computed at one place in the code."""

    code: Assembly
    _computed: dict[tuple["Tile", Index], LaneValues] = field(default_factory=dict[tuple["Tile", Index], LaneValues])

    def at(self, tile: "Tile", index: Index) -> LaneValues:
        key = (tile, index)
        if key not in self._computed:
            self._computed[key] = tile.lanes_at(self, index)
        return self._computed[key]


@dataclass(eq=False, slots=True)
class Tile:
    """A block of numbers; `lanes_at` writes the code that computes its lanes at an index."""

    shape: tuple[int, ...]
    element: str
    lanes_at: Callable[[Scope, Index], LaneValues]
    cost: int = 0
    """The cost of computing a lane again, in simple instructions."""
    buffer: "ArenaBuffer | None" = None
    """The buffer that `lanes_at` reads, if it holds exactly this tile's elements in row-major order."""


def constant_tile(shape: tuple[int, ...], element: str, lanes: LaneValues) -> Tile:
    """A tile with equal lanes."""

    def lanes_at(scope: Scope, index: Index) -> LaneValues:
        del scope, index
        return lanes

    return Tile(shape, element, lanes_at)


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer or a block of pointers into one argument, as element numbers."""

    argument: int
    element: str
    """The element type that it points to."""
    index: Tile


@dataclass(eq=False, slots=True, weakref_slot=True)
class ArenaBuffer:
    """Elements in row-major order, in the arena or at the address in `slot`."""

    shape: tuple[int, ...]
    element: str
    offset: int
    slot: str | None = None
    """A stack slot with the address, for loop-carried values."""
    keeps_alive: tuple["ArenaBuffer", ...] = ()
    """Buffers that the slot may point to; the reference keeps their spans allocated."""

    @property
    def kind(self) -> str:
        """The LLVM type of an element in the arena."""
        return stored_kind(self.element)

    def tile(self) -> Tile:
        return Tile(self.shape, self.element, self.read, 1, self)

    def reshaped(self, shape: tuple[int, ...]) -> Tile:
        """The same elements in the same order as a tile of another shape."""
        strides = _strides(shape)
        return Tile(shape, self.element, lambda scope, index: self._read(scope.code, strides, index), 1, self)

    def read(self, scope: Scope, index: Index) -> LaneValues:
        return self._read(scope.code, _strides(self.shape), index)

    def _read(self, code: Assembly, strides: tuple[int, ...], index: Index) -> LaneValues:
        address, width, step = self._address_of(code, strides, index)
        kind, target = vector_type(self.kind, width), register(self.element)
        if width and step != 1:
            raw = self._gather(code, address, width)
        else:
            raw = code.value(f"load {kind}, ptr {address}, align {_size(self.kind)}")
        if target == "i1":
            raw = code.value(f"icmp ne {kind} {raw}, {'zeroinitializer' if width else '0'}")
        return LaneValues(target, raw, width)

    def write(self, code: Assembly, index: Index, lanes: LaneValues) -> None:
        """Store lanes at an index, whose vector axis is the last one longer than 1."""
        address, width, step = self._address_of(code, _strides(self.shape), index)
        name = as_vector(code, lanes, width) if width else lanes.name
        if lanes.kind == "i1":
            name = code.value(f"zext {vector_type('i1', width)} {name} to {vector_type('i8', width)}")
        if width and step != 1:
            self._scatter(code, address, width, name)
        else:
            code.do(f"store {vector_type(self.kind, width)} {name}, ptr {address}, align {_size(self.kind)}")

    def address(self, code: Assembly) -> str:
        """The name of the first element's address."""
        if self.slot is not None:
            return code.value(f"load ptr, ptr {self.slot}")
        return code.value(f"getelementptr inbounds i8, ptr %arena, i64 {self.offset}")

    def _address_of(self, code: Assembly, strides: tuple[int, ...], index: Index) -> tuple[str, int, int]:
        """The address of a scalar or contiguous vector, or of each lane of another vector; the width; the step."""
        address, width, step = "0", 0, 1
        scattered: list[tuple[str, int]] = []
        for stride, position in zip(strides, index, strict=True):
            if not position.uniform:
                width = position.width
                if position.step is None:
                    scattered.append((position.name, stride))
                    continue
                step = position.step * stride
            address = plus(code, address, times(code, position.name, stride))
        begin = self.address(code)
        if scattered:
            return self._scattered_addresses(code, begin, address, scattered, width), width, 0
        first = code.value(f"getelementptr {self.kind}, ptr {begin}, i64 {address}")
        if width and step != 1:
            lanes = ", ".join(f"i64 {lane * step}" for lane in range(width))
            return code.value(f"getelementptr {self.kind}, ptr {first}, <{width} x i64> <{lanes}>"), width, step
        return first, width, 1

    def _scattered_addresses(
        self, code: Assembly, begin: str, address: str, parts: list[tuple[str, int]], width: int
    ) -> str:
        total = as_vector(code, LaneValues("i64", address), width)
        for name, stride in parts:
            factor = f"splat (i64 {stride})"
            total = code.value(f"add <{width} x i64> {total}, {code.value(f'mul <{width} x i64> {name}, {factor}')}")
        return code.value(f"getelementptr {self.kind}, ptr {begin}, <{width} x i64> {total}")

    def _gather(self, code: Assembly, address: str, width: int) -> str:
        vector = vector_type(self.kind, width)
        return code.call(
            vector,
            f"llvm.masked.gather.{intrinsic_suffix(self.kind, width)}.{intrinsic_suffix('ptr', width)}",
            (vector_type("ptr", width), address),
            ("i32", str(_size(self.kind))),
            (vector_type("i1", width), "splat (i1 true)"),
            (vector, "poison"),
        )

    def _scatter(self, code: Assembly, address: str, width: int, name: str) -> None:
        code.call(
            "void",
            f"llvm.masked.scatter.{intrinsic_suffix(self.kind, width)}.{intrinsic_suffix('ptr', width)}",
            (vector_type(self.kind, width), name),
            (vector_type("ptr", width), address),
            ("i32", str(_size(self.kind))),
            (vector_type("i1", width), "splat (i1 true)"),
        )


def new_buffer(arena: Arena, shape: tuple[int, ...], element: str, *, pad: int = 0) -> ArenaBuffer:
    """Allocate a buffer until its last reference is gone; `pad` elements before and after may be read."""
    count = 2 * pad
    count_of_elements = 1
    for extent in shape:
        count_of_elements *= extent
    size = _size(stored_kind(element))
    span = arena.allocate((count + count_of_elements) * size)
    buffer = ArenaBuffer(shape, element, span[0] + pad * size)
    weakref.finalize(buffer, arena.release, span).atexit = False
    return buffer


def stored_kind(element: str) -> str:
    """The LLVM type of an element in the arena: the carrier's, except that an i1 takes a byte."""
    kind = register(element)
    return "i8" if kind == "i1" else kind


def size_of(element: str) -> int:
    """The size in bytes of an element in the arena."""
    return _size(stored_kind(element))


def _size(kind: str) -> int:
    return {"i8": 1, "i16": 2, "i32": 4, "float": 4}.get(kind, 8)


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    reached = 1
    for extent in reversed(shape):
        strides.append(reached)
        reached *= extent
    return tuple(reversed(strides))
