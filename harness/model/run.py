"""The run: the facts of one case on one engine.

Owns what a child process may tell its parent: how the case ended, what was launched, how far each result is from the
reference, what memory saw.  Facts carry no judgement; `harness.oracles` turns them into verdicts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.model.case import Case
from harness.model.compute_sanitizer_report import Sanitized
from harness.model.ending import (
    Completed,
    Crashed,
    Deadlocked,
    Doing,
    Ending,
    Faulted,
    FaultOf,
    HungParty,
    OutOfMemory,
    Overtime,
    Raised,
    Refused,
    Residency,
    Source,
    TimedOut,
    Unsupported,
    Wait,
)
from harness.model.launch_difference import CaseAgreement
from harness.model.picture import ElementSpan, Spread
from harness.model.triton_sanitizer_report import Instrumented

__all__ = [  # of `harness.model.ending`, which is imported from here with the rest of the run
    "Completed",
    "Crashed",
    "Deadlocked",
    "Doing",
    "Ending",
    "FaultOf",
    "Faulted",
    "HungParty",
    "OutOfMemory",
    "Overtime",
    "Raised",
    "Refused",
    "Residency",
    "Source",
    "TimedOut",
    "Unsupported",
    "Wait",
]


# --- what was launched -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel launch as seen by the driver."""

    kernel: str
    source: Source | None
    """The line of the kernel's definition."""
    grid: tuple[int, int, int]
    config: str
    """The autotune config or the launch options, as Triton prints them: `BT: 64, num_warps: 4`."""
    config_index: int
    config_count: int
    """How many configs survived pruning; 1 where the kernel is not autotuned."""
    refused: tuple[str, ...] = ()
    """Configs that were to be launched before this one and do not compile or do not fit, each with what was said."""
    num_warps: int
    constants: Mapping[str, int | float | bool | str | None]
    """The values of the `tl.constexpr` parameters."""
    tile_sizes: tuple[int, ...]
    """Distinct extents above 1 of the blocks that the kernel loads and stores, ascending."""
    build: str
    """Digest of TTIR, options and architecture: equal builds have equal resources."""
    scratch_bytes: int = 0
    """Bytes asked of the allocator for the launch."""
    atomics: bool = False
    """Whether the kernel has atomics: the order of its programs may show in what it computes."""
    dot_precisions: tuple[str, ...] = ()
    """Distinct input precisions of the kernel's float32 `tt.dot`s, ascending: `("ieee", "tf32")`."""
    executor: str = field(default="numpy", compare=False)
    """What executed it on the virtual GPU, `numpy` or `native`: it changes how fast, never what."""
    cut: bool = False
    """In a giant case: the programs that were run were stopped in the middle of long loops."""


# --- what memory saw -------------------------------------------------------------------------------------------------


class Access(StrEnum):
    """The direction of a memory access."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"


class AddressSpace(StrEnum):
    """Where a stray access landed."""

    OUTSIDE_STORAGE = "outside the storage"
    OUTSIDE_VIEW = "outside the view, inside its storage"
    IN_GAP = "in a gap between the view's rows"
    NULL = "through a null pointer"
    UNKNOWN_POINTER = "through a pointer that belongs to no argument"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSite:
    """Where in which launch an access happened."""

    kernel: str
    launch: int
    """Index into `Run.launches`."""
    argument: str
    """The kernel's name of the pointer argument: `dx`."""
    source: Source | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Elements stored non-atomically by one program of a launch, and in whatever way by another."""

    site: AccessSite
    same_bytes: bool
    """Every program stored the same bytes to each such element; false if one differed."""
    cells: int
    first_cells: tuple[tuple[int, ...], ...]
    """Up to four indices into the argument's tensor, ascending."""
    programs: tuple[int, int]
    """Two linear program ids that stored the first cell; of an atomic's, who stored it and who updated it."""
    atomic: bool = False
    """Whether the other program's access is an atomic, and nothing orders the two."""
    where: Spread | None = field(default=None, compare=False)
    """All such cells, to be drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderDependence:
    """A program read elements that another program of the same launch stores, or updates with nothing to order them."""

    site: AccessSite
    """The load."""
    cells: int
    first_cells: tuple[tuple[int, ...], ...]
    programs: tuple[int, int]
    """Reader and writer of the first cell."""
    atomic: bool = False
    """Whether what writes is an atomic."""
    where: Spread | None = field(default=None, compare=False)
    """All such cells, to be drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """Accesses outside what the argument covers.

    Stores are dropped.  Loads outside the storage read zero; inside it they read what lies there, as on the GPU.
    """

    site: AccessSite
    access: Access
    region: AddressSpace
    lanes: int
    program: int
    """The first program that did it."""
    element: int
    """Its first such element, counted from the argument's first element in units of its element type."""
    where: ElementSpan | None = field(default=None, compare=False)
    """From the lowest to the highest such element, to be drawn; None where the pointer belongs to no argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UninitialisedRead:
    """A load of elements that nobody had written since `torch.empty` handed them out."""

    site: AccessSite
    cells: int
    first_cells: tuple[tuple[int, ...], ...]
    program: int
    where: Spread | None = field(default=None, compare=False)
    """All such cells, to be drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndefinedLanes:
    """A masked load without `other` that really masked lanes off: their values are undefined."""

    site: AccessSite
    lanes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertFailed:
    """A device assertion did not hold; the GPU would have ended the launch, the virtual one goes on."""

    site: AccessSite
    """The assertion; its argument is empty."""
    message: str
    lanes: int
    program: int
    """The first program in which it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trampled:
    """On a real GPU: memory around a tensor, or between its rows, does not hold any more what it was filled with."""

    site: AccessSite
    """The launch after which that was so; without a kernel where no launch does it a second time."""
    region: AddressSpace
    cells: int
    """How many elements of the tensor's type have changed."""
    element: int
    """The first of them, counted from the tensor's first element."""


DESCRIPTOR_BYTES = 16
"""At multiples of these begins what a tensor descriptor leads to, since compute capability 9.0."""


class Unaligned(StrEnum):
    """What of a tensor descriptor begins somewhere else than at a multiple of 16 bytes."""

    TENSOR = "its tensor"
    ROW = "a row of its tensor"
    BLOCK = "a block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Misaligned:
    """A tensor descriptor used as no GPU's copy engine can; it would have ended the launch, the virtual GPU goes on."""

    site: AccessSite
    """Where the descriptor was made, or a block moved through it."""
    what: Unaligned
    off_by: int
    """Bytes from the multiple of 16 before it, in the first such program."""
    program: int
    """The first program in which it was so."""


MemoryEvent = (
    Overlap | OrderDependence | Stray | UninitialisedRead | UndefinedLanes | AssertFailed | Misaligned | Trampled
)


# --- how right the results are ---------------------------------------------------------------------------------------


class Role(StrEnum):
    """Whether a result is an output of the op or the gradient of an input."""

    OUTPUT = "output"
    GRADIENT = "gradient"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """An error and where it is largest, in units of the tolerance (above 1 is wrong)."""

    ratio: float
    index: tuple[int, ...]
    got: float
    expected: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One output or gradient compared with its float64 reference."""

    name: str
    """`y`, or `d:x` for the gradient of input x."""
    role: Role
    shape: tuple[int, ...]
    whole: Measure
    """Root-mean-square error over the whole tensor against its tolerance; the index is that of the worst element."""
    worst_tile: Measure
    """The same over the worst tile: a row, or a stretch of a vector, so that one wrong row shows."""
    unwritten: int
    """Elements that nothing wrote since `torch.empty`."""
    first_unwritten: tuple[int, ...] | None
    nonfinite: int
    """NaN or infinite elements where the reference is finite."""
    unjudged: int = 0
    """Elements whose definition leaves the range of the case's type, or has no finite value: any result is right."""
    digest: str
    """Of the bytes: equal for results that are equal bit for bit."""
    writer: tuple[str, str] | None = None
    """The kernel and its argument through which a launch stored it last; None where torch made it afterwards."""
    sketch: tuple[float, ...] = ()
    """Seeded random projections, one a block of elements, to compare runs without moving tensors."""
    sketch_tolerance: tuple[float, ...] = ()
    """How far two right runs' projections may lie apart, one each."""
    wrong_where: Spread | None = field(default=None, compare=False)
    """The errors in tolerances of its tiles, to be drawn; None where all is right."""
    unwritten_where: Spread | None = field(default=None, compare=False)
    """The elements that nothing wrote, to be drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refilled:
    """The same case computed a second time, with something else in the lanes that masked loads leave undefined."""

    ending: Ending
    digests: Mapping[str, str]
    """Of each result's bytes, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """The same case computed a second time, with nothing changed."""

    ending: Ending
    digests: Mapping[str, str]
    """Of each result's bytes, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The real GPU on which a case ran, and in what it could not be the one that its process pretended to run on."""

    name: str
    capability: tuple[int, int]
    sm_count: int
    driver: str
    shortfalls: tuple[str, ...] = ()
    """`188 SMs are pretended on a GPU of 132`; empty where it is what the case asks for."""


# --- all of it -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The facts of one case on one engine."""

    case: Case
    engine: str
    ending: Ending
    launches: tuple[Launch, ...] = ()
    results: tuple[Result, ...] = ()
    memory: tuple[MemoryEvent, ...] = ()
    refilled: Refilled | None = None
    """None where no lane was undefined, or the case did not complete."""
    repeated: Repeated | None = None
    """On a real GPU, for some cases."""
    agreement: CaseAgreement | None = None
    """None where only one of both GPUs ran."""
    hardware: Hardware | None = None
    """None on the virtual GPU."""
    overtime: Overtime | None = None
    """None where it ended within the time that a case is given usually."""
    sanitizer: Sanitized | None = None
    """None where the process did not run under compute-sanitizer."""
    instrumented: Instrumented | None = None
    """None where Triton compiled the kernels without a sanitizer of its own."""
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """By part of the work: `inputs`, `front_end`, `parse`, `execution`, `reference`, `compare`, `host`."""
