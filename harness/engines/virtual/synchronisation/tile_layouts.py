"""Which warps of a program touch each element of a tile, from the layouts in TTGIR.

A layout is kept as Triton's linear layouts are: a basis vector for each bit of the number of a register, a lane and a
warp.  The element that a thread holds is the exclusive or of the vectors of its set bits.  A zero vector means copies:
all warps that differ in that bit only hold the same elements.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from harness.engines.virtual.numbers.elements import Array
from harness.errors import CannotExecute

Basis = tuple[int, ...]
"""The coordinates of one element of a tile."""

_LAYOUT = re.compile(r"^(#\w+) = (#ttg\..*)$", re.MULTILINE)
_LOCATION = re.compile(r"^(#loc\d*) = (loc\(.*\))$", re.MULTILINE)
_ACCESS = re.compile(
    r"(?:tt\.load|tt\.store|ttg\.async_copy_global_to_local|amdg\.buffer_(?:load|store)) .*? : (.*) (loc\(.*\))$"
)
_TILE = re.compile(r"tensor<((?:\d+x)+)(?:!tt\.ptr<.*?>|\w+), (.*)")
"""The type of a tile of pointers, or of elements in AMD's accesses by offset."""
STORES = ("tt.store ", "amdg.buffer_store ")


@dataclass(frozen=True, slots=True)
class TileLayout:
    """The distribution of a tile over the threads of a program."""

    registers: tuple[Basis, ...]
    lanes: tuple[Basis, ...]
    warps: tuple[Basis, ...]

    def fitted(self, shape: Sequence[int]) -> "TileLayout":
        """Return the layout of a tile of this shape.

        A tile that is larger than the layout repeats it in registers.  Of a smaller one, threads hold copies.
        """

        def clipped(bases: tuple[Basis, ...]) -> tuple[Basis, ...]:
            return tuple(tuple(at if at < size else 0 for at, size in zip(base, shape, strict=True)) for base in bases)

        registers, lanes, warps = clipped(self.registers), clipped(self.lanes), clipped(self.warps)
        repeated: list[Basis] = []
        for axis, size in enumerate(shape):
            reached = 2 * max((base[axis] for base in (*registers, *lanes, *warps)), default=0) or 1
            while reached < size:
                repeated.append(tuple(reached if other == axis else 0 for other in range(len(shape))))
                reached *= 2
        return TileLayout((*registers, *repeated), lanes, warps)

    def without_axis(self, axis: int) -> "TileLayout":
        """Return the layout of tiles that lack an axis, along which every thread holds a copy."""

        def cut(bases: tuple[Basis, ...]) -> tuple[Basis, ...]:
            return tuple((*base[:axis], *base[axis + 1 :]) for base in bases)

        return TileLayout(cut(self.registers), cut(self.lanes), cut(self.warps))

    def warps_of(self, shape: tuple[int, ...], *, stores: bool) -> Array:
        """Return a mask of warps for each element of a tile, by its row-major index.

        Every copy is loaded.  Only the copy of the first of its threads is stored, as Triton masks off the others.
        """
        fitted = self.fitted(shape)
        steps = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        held = _spanned([_flat(base, steps) for base in (*fitted.registers, *fitted.lanes)])
        warps = [_flat(base, steps) for base in fitted.warps]
        masks = np.zeros(prod(shape), np.uint64)
        for warp in range(1 << len(warps)):
            bits = [base for bit, base in enumerate(warps) if warp >> bit & 1]
            if stores and 0 in bits:
                continue
            masks[held ^ np.bitwise_xor.reduce([0, *bits])] |= np.uint64(1 << warp)
        return masks


def _flat(base: Basis, steps: Sequence[int]) -> int:
    return sum(at * step for at, step in zip(base, steps, strict=True))


def _spanned(bases: Sequence[int]) -> Array:
    """Return the exclusive ors of all subsets."""
    reached = np.zeros(1, np.int64)
    for base in bases:
        if base:
            reached = np.concatenate([reached, reached ^ base])
    return reached


@lru_cache(maxsize=1024)
def layout_of(text: str) -> TileLayout:
    """Return the layout that a TTGIR attribute without aliases describes.

    Raises:
        CannotExecute: the attribute is of another kind.
    """
    kind, _, rest = text.strip().partition("<{")
    fields = dict(_fields(rest.rpartition("}>")[0]))
    match kind:
        case "#ttg.blocked":
            return _blocked(fields)
        case "#ttg.slice":
            parent, axis = layout_of(fields["parent"]), int(fields["dim"])
            # A slice is the row of its parent's tile whose coordinate along the axis is 0.
            return parent.without_axis(axis)
        case "#ttg.linear":
            return TileLayout(*(_vectors(fields[name]) for name in ("register", "lane", "warp")))
        case "#ttg.nvidia_mma":
            return _product(fields)
        case "#ttg.amd_mfma":
            return _amd_product(fields)
        case _:
            raise CannotExecute(f"the layout {kind}")


def _blocked(fields: Mapping[str, str]) -> TileLayout:
    order = _numbers(fields["order"])
    reached = [1] * len(order)
    names = ("sizePerThread", "threadsPerWarp", "warpsPerCTA")
    return TileLayout(*[tuple(_grown(_numbers(fields[name]), order, reached)) for name in names])


def _product(fields: Mapping[str, str]) -> TileLayout:
    """The layout of the result of a matrix product: blocks of 16 x 8, a row of eight in four lanes."""
    instruction, major = _numbers(fields["instrShape"]), int(fields["versionMajor"])
    warps = _numbers(fields["warpsPerCTA"])
    if major not in {2, 3} or len(warps) != 2:
        raise CannotExecute(f"the layout of matrix products of version {major}")
    columns = instruction[1] if major == 3 else 8  # an instruction of Hopper makes several blocks
    wide = tuple((0, 8 << bit) for bit in range((columns // 8).bit_length() - 1))
    reached = [16, columns]
    order = (0, 1) if major == 3 else (1, 0)
    return TileLayout(
        ((0, 1), (8, 0), *wide), ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)), tuple(_grown(warps, order, reached))
    )


def _amd_product(fields: Mapping[str, str]) -> TileLayout:
    """The layout of the result of an MFMA instruction: columns in lanes, and four rows of a lane one below another."""
    rows, columns, *_ = _numbers(fields["instrShape"])
    if rows != columns or rows not in {16, 32} or set(_numbers(fields.get("tilesPerWarp", ""))) - {1}:
        raise CannotExecute(f"the layout of matrix products {fields['instrShape']}")
    bits = rows.bit_length() - 1
    # 64 lanes hold all columns of four rows each; registers have the rows that are left.
    lanes = [(0, 1 << bit) for bit in range(bits)] + [(4 << bit, 0) for bit in range(6 - bits)]
    registers = [(1, 0), (2, 0)] + [(4 << bit, 0) for bit in range(6 - bits, bits - 2)]
    if fields["isTransposed"] == "true":
        lanes, registers = [base[::-1] for base in lanes], [base[::-1] for base in registers]
    warps = _grown(_numbers(fields["warpsPerCTA"]), (1, 0), [rows, columns])
    return TileLayout(tuple(registers), tuple(lanes), tuple(warps))


def _grown(sizes: Sequence[int], order: Sequence[int], reached: list[int]) -> Iterator[Basis]:
    """Yield the vectors of a block of these sizes, the fastest axis first; `reached` grows along."""
    for axis in order:
        for _ in range(sizes[axis].bit_length() - 1):
            yield tuple(reached[axis] if other == axis else 0 for other in range(len(sizes)))
            reached[axis] *= 2


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each field of an attribute; fields may be attributes and lists."""
    depth, first = 0, 0
    for at, character in enumerate(text + ","):
        depth += {"<": 1, "[": 1, "{": 1, ">": -1, "]": -1, "}": -1}.get(character, 0)
        if character == "," and not depth:
            name, _, value = text[first:at].partition(" = ")
            yield name.strip(), value.strip()
            first = at + 1


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def _vectors(text: str) -> tuple[Basis, ...]:
    return tuple(_numbers(vector) for vector in re.findall(r"\[[\d, ]+\]", text.strip()[1:-1]))


@dataclass(frozen=True, slots=True)
class TileOwners:
    """The warps that touch the elements of one access's tile."""

    shape: tuple[int, ...]
    warps: Array
    """A mask of warps for each element, by its row-major index."""


def owners_of(ttgir: str) -> dict[str, TileOwners]:
    """Return the owners of the tile of each load and store, by the text of its location.

    An access that the compiler made into several, as in the prologue of a pipelined loop, has the warps of all.

    Raises:
        CannotExecute: a layout is unknown, warps have tasks of their own, or a program has several CTAs.
    """
    if "ttg.warp_specialize" in ttgir:
        raise CannotExecute("a kernel whose warps have different tasks")
    if '"ttg.num-ctas" = 1 ' not in ttgir:
        raise CannotExecute("a program of several CTAs")
    aliases = dict(_LAYOUT.findall(ttgir))
    locations = dict(_LOCATION.findall(ttgir))
    warps = int(re.search(r'"ttg.num-warps" = (\d+)', ttgir)[1])  # pyright: ignore[reportOptionalSubscript] - it always is there
    by_location: dict[str, TileOwners] = {}
    for line in ttgir.splitlines():
        access = _ACCESS.search(line)
        if access is None:
            continue
        location = locations.get(access[2][4:-1], access[2])
        owners = _owners(access[1], aliases, warps, stores=any(store in line for store in STORES))
        known = by_location.get(location)
        if known is not None and known.shape == owners.shape:
            owners = TileOwners(owners.shape, owners.warps | known.warps)
        by_location[location] = owners
    return by_location


def _owners(kind: str, aliases: Mapping[str, str], warps: int, *, stores: bool) -> TileOwners:
    tile = _TILE.search(kind)
    if tile is None:  # a scalar: all threads load it, one stores it
        return TileOwners((), np.array([1 if stores else (1 << warps) - 1], np.uint64))
    shape = tuple(map(int, tile[1].split("x")[:-1]))
    layout = layout_of(_without_aliases(_up_to_close(tile[2]), aliases))
    return TileOwners(shape, layout.warps_of(shape, stores=stores))


def _up_to_close(text: str) -> str:
    """Return the text up to the bracket that closes the type around it."""
    depth = 0
    for at, character in enumerate(text):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if depth < 0:
            return text[:at]
    return text


def _without_aliases(text: str, aliases: Mapping[str, str]) -> str:
    return re.sub(r"#(?!ttg\.|ttng\.)\w+", lambda match: aliases.get(match[0], match[0]), text)
