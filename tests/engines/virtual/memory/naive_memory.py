"""The definition of `Memory`: the effects and events of one launch, byte by byte in plain Python.

Accesses come in the order in which the machine makes them.  Within an access, lanes come in the order of programs and
lanes.  If several lanes store a byte, or are the first to read it, the last one counts.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from harness.engines.virtual.memory.arguments import Argument
from harness.engines.virtual.numbers.elements import Array
from harness.model.run import Access, AddressSpace

Reader = tuple[int, str, int, bool]
"""A program, the place and argument of its load, and if it had stored the byte itself, as all others did."""


@dataclass(frozen=True)
class Lane:
    """One active lane: its position in the block, its program and the element it points at."""

    position: tuple[int, ...]
    program: int
    element: int


@dataclass
class Bytes:
    """One buffer: its contents, and the programs that touched each byte."""

    contents: bytearray
    poison: bytes | None
    writers: dict[int, int] = field(default_factory=dict[int, int])
    first_readers: dict[int, Reader] = field(default_factory=dict[int, Reader])
    second_readers: dict[int, Reader] = field(default_factory=dict[int, Reader])
    storers: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """All programs that stored a byte."""
    differing: set[int] = field(default_factory=set[int])
    """The bytes to which two programs stored different values."""

    def is_own(self, byte: int, program: int) -> bool:
        """Return True if the program stored the byte, and reads its own value whichever program stored last."""
        return self.writers.get(byte) == program or (program in self.storers[byte] and byte not in self.differing)


Cells = dict[int, set[tuple[int, int]]]
"""The pairs of programs that met in an element, by element."""


@dataclass
class Seen:
    """Everything that memory may report, by place and argument."""

    overlaps: dict[tuple[str, int], Cells] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    differing: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    dependences: dict[tuple[str, int], Cells] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    uninitialised: dict[tuple[str, int], Cells] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    strays: dict[tuple[str, int, Access, AddressSpace], list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Program and element of each lane, in order."""


class NaiveMemory:
    """The memory of one launch."""

    def __init__(self, arguments: list[Argument], buffers: dict[int, Bytes]) -> None:
        self.arguments = arguments
        self.buffers = buffers
        self.seen = Seen()

    def load(self, place: str, number: int, lanes: list[Lane], size: int) -> dict[tuple[int, ...], bytes]:
        """Return what each active lane reads; zero outside the storage."""
        argument = self.arguments[number]
        read: dict[tuple[int, ...], bytes] = {lane.position: bytes(size) for lane in lanes}
        kept = list(self._without_strays(place, number, Access.LOAD, lanes, size))
        for lane in kept:
            held = self._bytes_of(argument)
            first = argument.first_byte + lane.element * size
            read[lane.position] = bytes(held.contents[first : first + size])
            if held.poison is not None and read[lane.position] == held.poison:
                cell = self.seen.uninitialised[place, number][lane.element * size // argument.element_bytes]
                cell.add((lane.program, lane.program))
            for byte in range(first, first + size):
                writer = held.writers.get(byte, lane.program)
                if (
                    not held.is_own(byte, lane.program)
                    and writer != lane.program
                    and argument.buffer is not None
                    and argument.buffer.track_readers
                ):
                    element = (byte - argument.first_byte) // argument.element_bytes
                    self.seen.dependences[place, number][element].add((lane.program, writer))
        if kept:
            self._record_readers(place, number, kept, size)
        return read

    def _record_readers(self, place: str, number: int, lanes: list[Lane], size: int) -> None:
        argument = self.arguments[number]
        held = self._bytes_of(argument)
        for readers in (held.first_readers, held.second_readers):
            known = set(readers)
            for lane in lanes:
                for byte in range(
                    argument.first_byte + lane.element * size, argument.first_byte + (lane.element + 1) * size
                ):
                    is_first = readers is held.first_readers
                    if byte not in known and (is_first or held.first_readers[byte][0] != lane.program):
                        readers[byte] = (lane.program, place, number, held.is_own(byte, lane.program))

    def store(
        self, place: str, number: int, lanes: list[Lane], values: dict[tuple[int, ...], bytes], size: int
    ) -> None:
        """Store, and record overlaps."""
        argument = self.arguments[number]
        kept = list(self._without_strays(place, number, Access.STORE, lanes, size))
        if not kept:
            return
        held = self._bytes_of(argument)
        before = dict(held.writers)
        differing = set[int]()
        contents = bytes(held.contents)
        last: dict[int, tuple[int, int]] = {}
        for lane in kept:
            for at, byte in self._byte_range(argument, lane, size):
                last[byte] = (lane.program, values[lane.position][at])
                if argument.buffer is not None and argument.buffer.track_readers:
                    is_same = contents[byte] == values[lane.position][at]
                    self._record_stored_reader(held, byte, lane.program, is_same=is_same)
        for lane in kept:
            for at, byte in self._byte_range(argument, lane, size):
                met = ((before.get(byte, 0), contents[byte]), last[byte])
                if self._record_overlap((place, number), byte, (lane.program, values[lane.position][at]), met):
                    differing.add(byte)
                held.storers[byte].add(lane.program)
        held.differing |= differing
        held.writers.update({byte: program for byte, (program, _) in last.items()})
        for byte, (_, value) in last.items():
            held.contents[byte] = value

    def _record_overlap(
        self, place: tuple[str, int], byte: int, ours: tuple[int, int], met: tuple[tuple[int, int], ...]
    ) -> bool:
        """Record other stores of the byte, each a program and its value; return True if a value differs."""
        differs = False
        argument = self.arguments[place[1]]
        for program, value in met:
            if program not in {0, ours[0]}:
                element = (byte - argument.first_byte) // argument.element_bytes
                self.seen.overlaps[place][element].add((min(ours[0], program), max(ours[0], program)))
                if ours[1] != value:
                    self.seen.differing.add(place)
                    differs = True
        return differs

    def _record_stored_reader(self, held: Bytes, byte: int, writer: int, *, is_same: bool) -> None:
        """Record another program's read of the byte that is stored; `is_same` if the store leaves the byte as it is."""
        reader = held.first_readers.get(byte)
        if reader is not None and reader[0] == writer:
            reader = held.second_readers.get(byte)
        if reader is not None and not (reader[3] and is_same):
            program, place, number, _ = reader
            argument = self.arguments[number]
            element = (byte - argument.first_byte) // argument.element_bytes
            self.seen.dependences[place, number][element].add((program, writer))

    @staticmethod
    def _byte_range(argument: Argument, lane: Lane, size: int) -> Iterator[tuple[int, int]]:
        first = argument.first_byte + lane.element * size
        return enumerate(range(first, first + size))

    def _bytes_of(self, argument: Argument) -> Bytes:
        assert argument.buffer is not None
        return self.buffers[id(argument.buffer)]

    def _without_strays(self, place: str, number: int, access: Access, lanes: list[Lane], size: int) -> Iterator[Lane]:
        """Yield the lanes that may continue, and record strays."""
        argument = self.arguments[number]
        own = {
            sum(index * stride for index, stride in zip(at, argument.strides, strict=True))
            for at in np.ndindex(*argument.shape)
        }
        for lane in lanes:
            first = lane.element * size
            elements = {(first + byte) // argument.element_bytes for byte in range(size)}
            end = (max(own) + 1) * argument.element_bytes if own else 0
            start = argument.first_byte + first
            region: AddressSpace | None = None
            if argument.buffer is None:
                region = AddressSpace.NULL
            elif start < 0 or start + size > argument.buffer.size_bytes:
                region = AddressSpace.OUTSIDE_STORAGE
            elif first < 0 or first + size > end:
                region = AddressSpace.OUTSIDE_VIEW
            elif not elements <= own:
                region = AddressSpace.IN_GAP
            inside = region in {AddressSpace.OUTSIDE_VIEW, AddressSpace.IN_GAP}
            if inside and access is Access.LOAD and 0 in argument.strides:
                region = None  # the view says nothing of what is read along an axis of stride 0
            if region is not None:
                stray = (lane.program, lane.element * size // argument.element_bytes)
                self.seen.strays[place, number, access, region].append(stray)
            if region is None or (access is Access.LOAD and region in {AddressSpace.OUTSIDE_VIEW, AddressSpace.IN_GAP}):
                yield lane


def lanes_of(index: Array, mask: Array, programs: Array) -> list[Lane]:
    """Return the active lanes of a whole block of element indices; the leading axis counts programs."""
    return [Lane(at, int(programs[at[0]]), int(index[at])) for at in np.ndindex(*index.shape) if bool(mask[at])]
