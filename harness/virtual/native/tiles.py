"""What an SSA value is while it is lowered: a recipe for its lanes, or a buffer in the arena; and pointers."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.virtual.native.lane_values import LaneValues, as_vector, of, register, suffix
from harness.virtual.native.llvm_text import Assembly, plus, times

ALIGNMENT = 64


class Arena:
    """The memory of one program's buffers: offsets are settled now, and used again once a buffer is forgotten."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._free: list[tuple[int, int]] = []

    def take(self, size_bytes: int) -> tuple[int, int]:
        """(offset, size) of room for so many bytes."""
        size = -(-size_bytes // ALIGNMENT) * ALIGNMENT
        fitting = [room for room in self._free if room[1] >= size]
        if fitting:
            offset, had = min(fitting, key=lambda room: room[1])
            self._free.remove((offset, had))
            if had > size:
                self._free.append((offset + size, had - size))
            return offset, size
        self.size_bytes += size
        return self.size_bytes - size, size

    def release(self, room: tuple[int, int]) -> None:
        """Give room back, joined with its free neighbours."""
        offset, size = room
        for other in [free for free in self._free if free[0] + free[1] == offset or free[0] == offset + size]:
            self._free.remove(other)
            offset, size = min(offset, other[0]), size + other[1]
        self._free.append((offset, size))


Index = tuple[LaneValues, ...]
"""One position of a tile for each axis, as i64 lanes; at most one axis varies along a vector."""


@dataclass(eq=False, slots=True)
class Scope:
    """One place in the code: what was computed there need not be computed again."""

    code: Assembly
    _made: dict[tuple["Tile", Index], LaneValues] = field(default_factory=dict[tuple["Tile", Index], LaneValues])

    def at(self, tile: "Tile", index: Index) -> LaneValues:
        """A tile's lanes at an index."""
        key = (tile, index)
        if key not in self._made:
            self._made[key] = tile.recipe(self, index)
        return self._made[key]


@dataclass(eq=False, slots=True)
class Tile:
    """A value of one program: `recipe` writes the code that computes its lanes at an index."""

    shape: tuple[int, ...]
    element: str
    recipe: Callable[[Scope, Index], LaneValues]
    cost: int = 0
    """What computing a lane again costs."""
    buffer: "ArenaBuffer | None" = None
    """Set where `recipe` only reads it, whole and in row-major order."""


def constant_tile(shape: tuple[int, ...], element: str, lanes: LaneValues) -> Tile:
    """A value whose lanes are all the same."""

    def recipe(scope: Scope, index: Index) -> LaneValues:
        del scope, index
        return lanes

    return Tile(shape, element, recipe)


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer or a block of pointers into one argument, by element numbers."""

    argument: int
    element: str
    """What it points at."""
    index: Tile


@dataclass(eq=False, slots=True, weakref_slot=True)
class ArenaBuffer:
    """Elements in the arena, in row-major order, or in what `slot` points at."""

    shape: tuple[int, ...]
    element: str
    offset: int
    slot: str | None = None
    """A stack slot that holds the address; for values that change from trip to trip."""
    keeps: tuple["ArenaBuffer", ...] = ()
    """The room that the slot points into."""

    @property
    def kind(self) -> str:
        """The LLVM type of an element as it lies in the arena."""
        return stored_kind(self.element)

    def tile(self) -> Tile:
        """The buffer as a value."""
        return Tile(self.shape, self.element, self.read, 1, self)

    def reshaped(self, shape: tuple[int, ...]) -> Tile:
        """The same elements, in the same order, as a value of another shape."""
        strides = _strides(shape)
        return Tile(shape, self.element, lambda scope, index: self._read(scope.code, strides, index), 1, self)

    def read(self, scope: Scope, index: Index) -> LaneValues:
        """The lanes at an index."""
        return self._read(scope.code, _strides(self.shape), index)

    def _read(self, code: Assembly, strides: tuple[int, ...], index: Index) -> LaneValues:
        where, width, step = self._place(code, strides, index)
        kind, wanted = of(self.kind, width), register(self.element)
        if width and step != 1:
            raw = self._gather(code, where, width)
        else:
            raw = code.value(f"load {kind}, ptr {where}, align {_size(self.kind)}")
        if wanted == "i1":
            raw = code.value(f"icmp ne {kind} {raw}, {'zeroinitializer' if width else '0'}")
        return LaneValues(wanted, raw, width)

    def write(self, code: Assembly, index: Index, lanes: LaneValues) -> None:
        """Store lanes at an index whose varying axis is the last that is longer than one."""
        where, width, step = self._place(code, _strides(self.shape), index)
        name = as_vector(code, lanes, width) if width else lanes.name
        if lanes.kind == "i1":
            name = code.value(f"zext {of('i1', width)} {name} to {of('i8', width)}")
        if width and step != 1:
            self._scatter(code, where, width, name)
        else:
            code.do(f"store {of(self.kind, width)} {name}, ptr {where}, align {_size(self.kind)}")

    def address(self, code: Assembly) -> str:
        """Where the elements begin."""
        if self.slot is not None:
            return code.value(f"load ptr, ptr {self.slot}")
        return code.value(f"getelementptr inbounds i8, ptr %arena, i64 {self.offset}")

    def _place(self, code: Assembly, strides: tuple[int, ...], index: Index) -> tuple[str, int, int]:
        """The address (of a vector's first lane, or of each lane where they are apart), the width, and the step."""
        where, width, step = "0", 0, 1
        scattered: list[tuple[str, int]] = []
        for stride, position in zip(strides, index, strict=True):
            if not position.uniform:
                width = position.width
                if position.step is None:
                    scattered.append((position.name, stride))
                    continue
                step = position.step * stride
            where = plus(code, where, times(code, position.name, stride))
        begin = self.address(code)
        if scattered:
            return self._apart(code, begin, where, scattered, width), width, 0
        first = code.value(f"getelementptr {self.kind}, ptr {begin}, i64 {where}")
        if width and step != 1:
            lanes = ", ".join(f"i64 {lane * step}" for lane in range(width))
            return code.value(f"getelementptr {self.kind}, ptr {first}, <{width} x i64> <{lanes}>"), width, step
        return first, width, 1

    def _apart(self, code: Assembly, begin: str, where: str, parts: list[tuple[str, int]], width: int) -> str:
        total = as_vector(code, LaneValues("i64", where), width)
        for name, stride in parts:
            factor = f"splat (i64 {stride})"
            total = code.value(f"add <{width} x i64> {total}, {code.value(f'mul <{width} x i64> {name}, {factor}')}")
        return code.value(f"getelementptr {self.kind}, ptr {begin}, <{width} x i64> {total}")

    def _gather(self, code: Assembly, where: str, width: int) -> str:
        vector = of(self.kind, width)
        return code.call(
            vector,
            f"llvm.masked.gather.{suffix(self.kind, width)}.{suffix('ptr', width)}",
            (of("ptr", width), where),
            ("i32", str(_size(self.kind))),
            (of("i1", width), "splat (i1 true)"),
            (vector, "poison"),
        )

    def _scatter(self, code: Assembly, where: str, width: int, name: str) -> None:
        code.call(
            "void",
            f"llvm.masked.scatter.{suffix(self.kind, width)}.{suffix('ptr', width)}",
            (of(self.kind, width), name),
            (of("ptr", width), where),
            ("i32", str(_size(self.kind))),
            (of("i1", width), "splat (i1 true)"),
        )


def new_buffer(arena: Arena, shape: tuple[int, ...], element: str, *, pad: int = 0) -> ArenaBuffer:
    """Room in the arena until nothing refers to it any more; `pad` elements before and after may be read."""
    count = 2 * pad
    whole = 1
    for extent in shape:
        whole *= extent
    size = _size(stored_kind(element))
    room = arena.take((count + whole) * size)
    buffer = ArenaBuffer(shape, element, room[0] + pad * size)
    weakref.finalize(buffer, arena.release, room).atexit = False
    return buffer


def stored_kind(element: str) -> str:
    """How the arena keeps an element: as it is computed, but a truth value in a byte."""
    kind = register(element)
    return "i8" if kind == "i1" else kind


def size_of(element: str) -> int:
    """Bytes of an element in the arena."""
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
