"""The memories of a launch: global regions, the shared memory of each CTA, local memory, and the parameters.

Global memory is a set of regions with gaps between them.  A pointer keeps no provenance below TTIR, so a region is all
that bounds are known of: an address between two regions belongs to nothing.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.engines.ptx.ptx_kernel import PtxInstruction, PtxKernel
from harness.engines.ptx.threads import Array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REGION_SPACING = 1 << 36
"""The distance of the first bytes of two regions."""
MOST_FOUND = 4096
"""The storages that one access may find by addresses."""
SHARED_WINDOW = 1 << 56
LOCAL_WINDOW = 1 << 57
PARAMETER_WINDOW = 1 << 58
"""The first generic addresses of memories other than global memory."""
WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAMETER_WINDOW}
FIRST_VARIABLE = 1 << 34
"""The address of a kernel's first variable in global or constant memory."""
VARIABLE_SPACING = 1 << 24
SHARED_BASE = 1024
"""The first address of shared memory that a kernel gets."""
RANK_SHIFT = 24
"""Of an address in the shared memory of another CTA of the cluster, the bits from here up are its rank plus one."""
FRESH_BYTE = 0xFF
"""What shared memory holds before anything is written: NaN in every type, and -1."""


@dataclass(slots=True, eq=False)
class MemoryRegion:
    """Bytes of global memory that belong together: a storage of the launch, or a variable of the kernel."""

    name: str
    address: int
    content: Array
    """The bytes, as a view of the memory of this process."""
    number: int = -1
    """The place among the launch's buffers; -1 for a variable or for a storage that is no argument."""
    filler_bytes: int = 0
    """The last bytes of the content, which complete a word and belong to nothing."""
    _views: dict[Any, Array] = field(default_factory=dict[Any, Array])

    @property
    def size_bytes(self) -> int:
        return len(self.content) - self.filler_bytes

    def view(self, dtype: type[Any]) -> Array:
        """Return the whole elements of a type, from the region's first byte."""
        if dtype not in self._views:
            size = np.dtype(dtype).itemsize
            self._views[dtype] = self.content[: len(self.content) // size * size].view(dtype)
        return self._views[dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionPart:
    """The lanes of one access that lie in one region."""

    region: MemoryRegion
    lanes: Array | slice
    """Their places in the access."""
    offsets: Array
    """Byte offsets in the region."""


class GlobalMemory:
    """The regions of one launch by address."""

    def __init__(self) -> None:
        self.regions: list[MemoryRegion] = []
        self.find: Callable[[int], bool] = lambda address: False  # noqa: ARG005 - the default finds nothing
        """Adds the region that holds an address of this process; returns False if there is none."""
        self._bases = np.zeros(0, np.int64)
        self.kept: dict[object, object] = {}
        """What an executor of instructions keeps for the launch."""
        self.changes = 0
        """Grows with each instruction that changes bytes, or may have."""

    def add(self, name: str, content: Array, number: int = -1, address: int = 0, filler_bytes: int = 0) -> MemoryRegion:
        """Add a region; `address` only for memory whose own address the kernel may hold."""
        address = address or (len(self.regions) + 1) * REGION_SPACING
        region = MemoryRegion(name, address, content, number, filler_bytes)
        self.regions.append(region)
        self.regions.sort(key=lambda region: region.address)
        self._bases = np.array([region.address for region in self.regions], np.int64)
        return region

    def parts(self, addresses: Array, size_bytes: int) -> tuple[list[RegionPart], Array | None]:
        """Return the parts of an access by region, and a mask of the lanes that lie in none; None if all do."""
        if not len(addresses):
            return [], None
        low, high = int(addresses.min()), int(addresses.max())
        at = int(np.searchsorted(self._bases, low, side="right")) - 1
        if at >= 0:
            region = self.regions[at]
            if high + size_bytes <= region.address + region.size_bytes:
                return [RegionPart(region=region, lanes=slice(None), offsets=addresses - region.address)], None
        return self._split(addresses, size_bytes)

    def _split(self, addresses: Array, size_bytes: int) -> tuple[list[RegionPart], Array | None]:
        self._find_missing(addresses, size_bytes)
        which = np.searchsorted(self._bases, addresses, side="right") - 1
        stray = np.ones(len(addresses), np.bool_)
        parts: list[RegionPart] = []
        for number in np.unique(which[which >= 0]).tolist():
            region = self.regions[number]
            offsets = addresses - region.address
            inside = (which == number) & (offsets < region.size_bytes) & (offsets + size_bytes <= len(region.content))
            if inside.any():
                parts.append(RegionPart(region=region, lanes=np.flatnonzero(inside), offsets=offsets[inside]))
                stray &= ~inside
        return parts, stray if stray.any() else None

    def _find_missing(self, addresses: Array, size_bytes: int) -> None:
        """Add regions for addresses that the kernel has read from memory."""
        for _ in range(MOST_FOUND):
            which = np.searchsorted(self._bases, addresses, side="right") - 1
            ends = np.array([region.address + region.size_bytes for region in self.regions], np.int64)
            missing = (
                (which < 0) | (addresses + size_bytes > ends[which]) if len(ends) else np.ones(len(addresses), np.bool_)
            )
            # Addresses near a region are beyond its end, unless it lies among the storages of this process.
            if len(ends):
                near = (which >= 0) & (addresses - self._bases[which] < REGION_SPACING)
                near &= self._bases[which] % REGION_SPACING == 0
            else:
                near = ~missing
            candidates = addresses[missing & ~near]
            if not len(candidates) or not self.find(int(candidates[0])):
                return


class SharedMemory:
    """The shared memory of the CTAs of a wave."""

    def __init__(self, ctas: int, size_bytes: int, cluster: int) -> None:
        self.size_bytes = size_bytes
        self.end = SHARED_BASE + size_bytes
        self.stride = -(-self.end // 1024) * 1024
        self.cluster = cluster
        self.content = np.full(ctas * self.stride, FRESH_BYTE, np.uint8)
        self.written = np.zeros(ctas * self.stride, np.bool_)
        self._views: dict[Any, Array] = {}

    def view(self, dtype: type[Any]) -> Array:
        if dtype not in self._views:
            self._views[dtype] = self.content.view(dtype)
        return self._views[dtype]

    def offsets(self, addresses: Array, ctas: Array, size_bytes: int) -> tuple[Array, Array | None]:
        """Return the places of addresses in the memory of all CTAs, and a mask of those outside; None if none is.

        Args:
            addresses: as the instruction has them, in the shared memory of a CTA or of a cluster.
            ctas: for each address the place in the wave of the CTA that uses it.
            size_bytes: how many bytes are used there.
        """
        own = addresses
        if self.cluster > 1 and (ranks := addresses >> RANK_SHIFT).any():
            own = addresses & ((1 << RANK_SHIFT) - 1)
            ctas = np.where(ranks > 0, ctas // self.cluster * self.cluster + ranks - 1, ctas)
        outside = (own < SHARED_BASE) | (own + size_bytes > self.end)
        places = ctas * self.stride + own
        return places, outside if outside.any() else None


class LocalMemory:
    """The local memory of each thread."""

    def __init__(self, threads: int, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.stride = max(16, -(-size_bytes // 16) * 16)
        self.content = np.full(threads * self.stride if size_bytes else 0, FRESH_BYTE, np.uint8)

    def view(self, dtype: type[Any]) -> Array:
        return self.content.view(dtype)


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something that an instruction does and no right kernel does."""

    kind: str
    instruction: PtxInstruction
    cta: int
    """The linear id of the CTA."""
    warp: int
    text: str
    """What was seen, for example the address."""
    other: PtxInstruction | None = None
    """The earlier instruction that it conflicts with."""
    other_warp: int = -1


@dataclass(slots=True)
class Flaws:
    """The flaws of one launch, each kind once for each instruction and each pair."""

    seen: dict[tuple[str, int, int], Flaw] = field(default_factory=dict[tuple[str, int, int], Flaw])
    counts: dict[tuple[str, int, int], int] = field(default_factory=dict[tuple[str, int, int], int])

    def add(self, flaw: Flaw, count: int = 1) -> None:
        key = (flaw.kind, id(flaw.instruction), id(flaw.other))
        self.seen.setdefault(key, flaw)
        self.counts[key] = self.counts.get(key, 0) + count


@dataclass(slots=True)
class Memories:
    """The memories that a wave uses."""

    global_memory: GlobalMemory
    shared: SharedMemory
    local: LocalMemory
    parameters: Array
    """The bytes of the kernel's parameters."""
    flaws: Flaws
    on_global: "GlobalWatch"


class GlobalWatch:
    """Hears of accesses to global memory; the default hears nothing."""

    def stray(self, instruction: PtxInstruction, addresses: Array, programs: Array, size_bytes: int) -> None:
        """Called for lanes whose addresses belong to no region; they are dropped."""

    def loaded(self, instruction: PtxInstruction, part: RegionPart, values: Array, programs: Array) -> None:
        """Called for the lanes of a load in one region."""

    def stored(self, instruction: PtxInstruction, part: RegionPart, size_bytes: int, programs: Array) -> None:
        """Called before the lanes of a store in one region take effect."""

    def updated(self, instruction: PtxInstruction, part: RegionPart, size_bytes: int, programs: Array) -> None:
        """Called before the lanes of an atomic in one region take effect."""


def variable_addresses(kernel: PtxKernel) -> dict[str, int]:
    """Return the addresses of the kernel's variables outside shared memory."""
    addresses = {variable.name: variable.offset for variable in kernel.variables.values() if variable.space == "local"}
    addresses |= {parameter.name: parameter.offset for parameter in kernel.parameters}
    fixed = (name for name, variable in kernel.variables.items() if variable.space in {"global", "const"})
    return addresses | {name: FIRST_VARIABLE + number * VARIABLE_SPACING for number, name in enumerate(fixed)}


def add_variables(memory: GlobalMemory, kernel: PtxKernel) -> None:
    """Add the kernel's variables in global and constant memory as regions."""
    addresses = variable_addresses(kernel)
    for name, variable in kernel.variables.items():
        if variable.space in {"global", "const"}:
            content = np.zeros(max(variable.size_bytes, len(variable.content)), np.uint8)
            content[: len(variable.content)] = np.frombuffer(variable.content, np.uint8)
            memory.add(name, content, address=addresses[name])


def shared_layout(kernel: PtxKernel) -> tuple[dict[str, int], int]:
    """Return the addresses of the kernel's variables in shared memory, and the bytes of those whose size is known."""
    addresses: dict[str, int] = {}
    offset = 0
    known: Sequence[Any] = [variable for variable in kernel.variables.values() if variable.space == "shared"]
    for variable in sorted(known, key=lambda variable: variable.size_bytes == 0):
        offset = -(-offset // max(1, variable.align)) * max(1, variable.align)
        addresses[variable.name] = SHARED_BASE + offset
        offset += variable.size_bytes
    return addresses, offset
