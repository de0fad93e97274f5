"""`Memory` equals its definition: contents and events of any launch are those of the lane-by-lane model."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.engines.ttir.ir import Type
from harness.engines.virtual.memory.accesses import BlockAccess, Memory
from harness.engines.virtual.memory.arguments import Argument, Buffer
from harness.engines.virtual.memory.events import FIRST_CELLS, EventCollector
from harness.engines.virtual.memory.pointers import Pointers
from harness.engines.virtual.memory.views import cell_bytes_of
from harness.engines.virtual.numbers.elements import Array
from harness.execution.poison import Poison
from harness.model.run import AccessSite, MemoryEvent, OrderDependence, Overlap, Source, Stray, UninitialisedRead
from tests.engines.virtual.memory.naive_memory import Bytes, Cells, NaiveMemory, Seen, lanes_of

PATTERN = 0x5AA5
POISON_BYTE_PAIR = PATTERN.to_bytes(2, "little")


@dataclass(frozen=True)
class RandomAccess:
    """One load or store of all programs; arrays have a leading axis of programs, or of one."""

    place: str
    argument: int
    kind: Type
    parts: tuple[Array, ...]
    mask: Array | None
    values: Array | None
    """The stored values; None for a load."""
    other: Array

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return self.kind.bytes


@dataclass(frozen=True)
class Launch:
    """A random launch: buffers, arguments in them, accesses, and the size of chunks of programs."""

    storages: list[Array]
    arguments: list[tuple[int | None, int, int, tuple[int, ...], tuple[int, ...]]]
    """Buffer, first byte, element size, shape, strides."""
    programs: int
    chunk: int
    accesses: list[RandomAccess]
    tracked: bool


def sized(limit: int) -> st.SearchStrategy[int]:
    return st.integers(1, limit)


@st.composite
def blocks(draw: st.DrawFn, extents: tuple[int, ...], low: int, high: int, kind: type[Any]) -> Array:
    """Draw an un-broadcast block: each axis has the block's extent or 1."""
    shape = tuple(draw(st.sampled_from((extent, 1))) for extent in extents)
    count = int(np.prod(shape))
    contents = draw(st.lists(st.integers(low, high), min_size=count, max_size=count))
    return np.array(contents, np.int64).reshape(shape).astype(kind)


@st.composite
def ramps(draw: st.DrawFn, extents: tuple[int, ...]) -> Array:
    """Draw offsets that grow along one axis, as those of `tl.arange`."""
    axis = draw(st.integers(0, len(extents) - 1))
    stride = draw(st.sampled_from((1, 1, 1, 2, 3, 5, 0, -1)))
    shape = [1] * len(extents)
    shape[axis] = extents[axis]
    if draw(st.booleans()):  # each program's or row's own ramp
        begins = draw(blocks((*extents[:axis], 1, *extents[axis + 1 :]), 0, 4, np.int64))
        return begins + np.arange(extents[axis], dtype=np.int64).reshape(shape)
    return (
        np.arange(extents[axis], dtype=np.int64) * stride + draw(st.sampled_from((0, 0, 0, 1, 2, 3, 5, -1, -2)))
    ).reshape(shape)


@st.composite
def masks(draw: st.DrawFn, extents: tuple[int, ...]) -> Array | None:
    match draw(st.sampled_from(("none", "random", "rows", "columns", "both"))):
        case "none":
            return None
        case "random":
            return draw(blocks(extents, 0, 1, np.bool_))
        case "rows":
            return np.array(draw(blocks((*extents[:-1], 1), 0, 1, np.bool_)))
        case "columns":
            end = draw(st.integers(0, extents[-1]))
            return (np.arange(extents[-1]) < end).reshape((1,) * (len(extents) - 1) + (-1,))
        case _:
            end = draw(st.integers(0, extents[-1]))
            columns = (np.arange(extents[-1]) < end).reshape((1,) * (len(extents) - 1) + (-1,))
            return columns & draw(blocks((*extents[:-1], 1), 0, 1, np.bool_))


@st.composite
def launches(draw: st.DrawFn) -> Launch:
    storages = [
        np.frombuffer(bytes(draw(st.lists(st.integers(0, 255), min_size=size, max_size=size))), np.uint8).copy()
        for size in draw(st.lists(st.sampled_from((48, 64, 32, 100, 9, 1)), min_size=1, max_size=2))
    ]
    for storage in storages:
        if draw(st.booleans()):
            storage[: len(storage) // 2 * 2].view(np.uint16)[...] = PATTERN
    arguments = [draw(views(storages)) for _ in range(draw(sized(3)))]
    programs = draw(st.sampled_from((2, 3, 4, 1)))
    accesses: list[RandomAccess] = []
    for line in range(draw(st.sampled_from((2, 3, 4, 1)))):
        accesses.append(draw(one_access(f"line {line}", arguments, programs, accesses)))
    return Launch(storages, arguments, programs, draw(sized(4)), accesses, draw(st.sampled_from((True, True, False))))


@st.composite
def views(draw: st.DrawFn, storages: list[Array]) -> tuple[int | None, int, int, tuple[int, ...], tuple[int, ...]]:
    size = draw(st.sampled_from((2, 4, 1, 8)))
    if draw(st.integers(0, 15)) == 0:
        return None, 0, size, (), ()
    buffer = draw(st.integers(0, len(storages) - 1))
    if draw(st.booleans()):
        return buffer, 0, size, (len(storages[buffer]) // size,), (1,)
    rank = draw(st.integers(1, 3))
    shape = [draw(st.sampled_from((8, 4, 3, 2, 5, 1, 0))) for _ in range(rank)]
    strides: list[int] = []
    dense = 1
    for extent in reversed(shape):
        strides.insert(0, draw(st.sampled_from((dense, dense, dense, dense + 1, 0, 2))))
        dense *= max(1, extent)
    if draw(st.booleans()):
        order = draw(st.permutations(range(rank)))
        shape, strides = [shape[axis] for axis in order], [strides[axis] for axis in order]
    total = len(storages[buffer]) // size
    first = draw(st.one_of(st.just(0), st.integers(0, max(0, total - 1))))
    for axis in range(rank):  # shrink until the view lies in its storage, as torch promises
        while shape[axis] > 1 and first + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) >= total:
            shape[axis] -= 1
    if first >= total:
        shape[0] = 0
    return buffer, first * size, size, tuple(shape), tuple(strides)


@st.composite
def one_access(
    draw: st.DrawFn,
    place: str,
    arguments: list[tuple[int | None, int, int, tuple[int, ...], tuple[int, ...]]],
    programs: int,
    before: list[RandomAccess],
) -> RandomAccess:
    if before and draw(st.booleans()):  # repeat the place of an earlier access, so that accesses meet
        model = draw(st.sampled_from(before))
        extents = (programs, *model.kind.shape)
        kind = np.dtype(f"i{model.size}").type
        values = draw(blocks(extents, 0, 3, kind)) if draw(st.booleans()) else None
        mask = draw(masks(extents))
        return RandomAccess(
            place, model.argument, model.kind, model.parts, mask, values, draw(blocks(extents, -5, 5, kind))
        )
    number = draw(st.integers(0, len(arguments) - 1))
    size = draw(st.sampled_from((arguments[number][2], arguments[number][2], arguments[number][2], 1, 2, 4, 8)))
    extents = (programs, *draw(st.lists(st.sampled_from((4, 2, 1, 5, 8)), min_size=0, max_size=2)))
    parts = [draw(ramps(extents)) for _ in range(draw(sized(3)))]
    if draw(st.booleans()):
        parts.append(draw(blocks(extents, -1, 9, np.int64)))
    mask = draw(masks(extents))
    low, high = draw(st.sampled_from(((7, 7), (0, 3), (-128, 127))))
    kind = np.dtype(f"i{size}").type
    values = draw(blocks(extents, low, high, kind)) if draw(st.booleans()) else None
    return RandomAccess(
        place, number, Type(f"i{8 * size}", extents[1:]), tuple(parts), mask, values, draw(blocks(extents, -5, 5, kind))
    )


def in_chunk(values: Array, first: int, last: int) -> Array:
    return values if values.shape[0] == 1 else values[first:last]


def pointers_of(access: RandomAccess, first: int, last: int) -> Pointers:
    made = Pointers(access.argument, access.size, (np.zeros((1,) * access.parts[0].ndim, np.int64),))
    for part in access.parts:
        made = made.plus(in_chunk(part, first, last))
    return made


def run_naively(launch: Launch, arguments: list[Argument], buffers: dict[int, Bytes]) -> tuple[list[Array], Seen]:
    naive = NaiveMemory(arguments, buffers)
    loaded: list[Array] = []
    for first in range(0, launch.programs, launch.chunk):
        last = min(first + launch.chunk, launch.programs)
        for access in launch.accesses:
            index = pointers_of(access, first, last).index()
            mask = np.ones((1,) * index.ndim, np.bool_) if access.mask is None else in_chunk(access.mask, first, last)
            extra = access.other if access.values is None else access.values
            shape = (last - first, *access.kind.shape)
            lanes = lanes_of(
                np.broadcast_to(index, shape), np.broadcast_to(mask, shape), np.arange(first + 1, last + 1)
            )
            extra = np.broadcast_to(in_chunk(extra, first, last), shape)
            if access.values is None:
                result = extra.copy()
                for at, raw in naive.load(access.place, access.argument, lanes, access.size).items():
                    result[at] = np.frombuffer(raw, extra.dtype)[0]
                loaded.append(result)
            else:
                given = {lane.position: extra[lane.position].tobytes() for lane in lanes}
                naive.store(access.place, access.argument, lanes, given, access.size)
    return loaded, naive.seen


def run_batched(launch: Launch, arguments: list[Argument]) -> tuple[list[Array], list[MemoryEvent]]:
    events = EventCollector()
    memory = Memory(arguments, events)
    loaded: list[Array] = []
    for first in range(0, launch.programs, launch.chunk):
        last = min(first + launch.chunk, launch.programs)
        numbers = np.arange(first + 1, last + 1, dtype=np.int32)
        for access in launch.accesses:
            pointers = pointers_of(access, first, last)
            mask = None if access.mask is None else in_chunk(access.mask, first, last)
            block_access = BlockAccess(access.place, pointers, access.kind, mask, numbers)
            if access.values is None:
                other = in_chunk(access.other, first, last)
                loaded.append(memory.load(block_access, other))
            else:
                values = in_chunk(access.values, first, last)
                memory.store(block_access, values)
    return loaded, list(events.finish("kernel", 0, arguments, lambda place: Source(file=place, line=1)))


def place_of(site: AccessSite) -> tuple[str, int]:
    assert site.source is not None
    return site.source.file, int(site.argument.removeprefix("argument "))


def make_arguments(launch: Launch) -> tuple[list[Argument], dict[int, Bytes]]:
    buffers = [
        Buffer(storage.ctypes.data, len(storage), Poison(PATTERN, 2) if index == 0 else None)
        for index, storage in enumerate(launch.storages)
    ]
    arguments = [
        Argument(f"argument {at}", None if number is None else buffers[number], first, size, shape, strides)
        for at, (number, first, size, shape, strides) in enumerate(launch.arguments)
    ]
    for buffer in buffers:
        if any(argument.buffer is buffer for argument in arguments):
            buffer.cell_bytes = cell_bytes_of(buffer, arguments)
        buffer.track_readers = launch.tracked
    contents = {
        id(buffer): Bytes(bytearray(storage.tobytes()), POISON_BYTE_PAIR if buffer.poison else None)
        for buffer, storage in zip(buffers, launch.storages, strict=True)
    }
    return arguments, contents


def cells_of(arguments: list[Argument], number: int, cells: Cells) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """Return the number of cells, and the first of them as an event shows them."""
    return len(cells), tuple(arguments[number].index_of(element) for element in sorted(cells)[:FIRST_CELLS])


def check_event(event: MemoryEvent, arguments: list[Argument], seen: Seen, place: tuple[str, int]) -> None:
    """Compare one event with the model's, and remove it from the model."""
    match event:
        case Overlap():
            cells = seen.overlaps.pop(place)
            assert (event.cells, event.first_cells) == cells_of(arguments, place[1], cells)
            assert tuple(program + 1 for program in event.programs) in cells[min(cells)]
            assert event.same_bytes == (place not in seen.differing)
        case OrderDependence():
            cells = seen.dependences.pop(place)
            assert (event.cells, event.first_cells) == cells_of(arguments, place[1], cells)
            assert tuple(program + 1 for program in event.programs) in cells[min(cells)]
        case UninitialisedRead():
            cells = seen.uninitialised.pop(place)
            assert (event.cells, event.first_cells) == cells_of(arguments, place[1], cells)
            assert event.program + 1 == min(cells[min(cells)])[0]
        case Stray():
            strays = seen.strays.pop((*place, event.access, event.region))
            program = min(program for program, _ in strays)
            element = next(element for other, element in strays if other == program)
            assert (event.lanes, event.program + 1, event.element) == (len(strays), program, element)
        case _:
            raise AssertionError(event)


@settings(max_examples=400)
@given(launches())
def test_memory_equals_the_lane_by_lane_model(launch: Launch) -> None:
    arguments, contents = make_arguments(launch)
    expected, seen = run_naively(launch, arguments, contents)
    got, events = run_batched(launch, arguments)
    for want, have in zip(expected, got, strict=True):
        np.testing.assert_array_equal(np.broadcast_to(have, want.shape), want)
    for argument in arguments:
        if argument.buffer is not None:
            assert argument.buffer.bytes.tobytes() == bytes(contents[id(argument.buffer)].contents)
    for event in events:
        check_event(event, arguments, seen, place_of(event.site))
    left = (seen.overlaps, seen.dependences, seen.uninitialised, seen.strays)
    assert [dict(kind) for kind in left] == [{}, {}, {}, {}]


def test_two_ramps_along_one_axis_are_not_one_row() -> None:
    storage = np.arange(64, dtype=np.int8)
    buffer = Buffer(storage.ctypes.data, 64, None)
    memory = Memory([Argument("x", buffer, 0, 1, (64,), (1,))], EventCollector())
    columns = np.arange(8, dtype=np.int64)
    parts = ((np.arange(2) * 16)[:, None, None] + columns, (np.arange(3) * 2)[None, :, None] + columns)
    access = BlockAccess("here", Pointers(0, 1, parts), Type("i8", (3, 8)), None, np.array([1, 2], np.int32))
    np.testing.assert_array_equal(memory.load(access, np.zeros(1, np.int8)), parts[0] + parts[1])
