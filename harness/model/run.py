"""The run: the facts of one case on one engine.

Owns what a child process may tell its parent: how the case ended, what was launched, how far each result is from the
reference, what memory saw.  Facts carry no judgement; `harness.oracles` turns them into verdicts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.model.case import Case
from harness.model.picture import Reach, Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A place in the kernel's Python source.  `file` is an absolute path or a name relative to site-packages."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line}"


# --- how a case ended ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The op ran to its end, forward and backward, and was compared with the reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The library, Triton or torch raised an exception while the case ran."""

    kind: str
    """Class name: `RuntimeError`."""
    message: str
    source: Source | None
    """The innermost frame outside torch, Triton and the harness, when there is one."""
    phase: str
    """`forward`, `backward`, or one in which the suite is at fault: `inputs`, `reference`, `compare`."""
    traceback: str
    launch: str | None = None
    """The kernel that was being built or launched, where one was."""
    config_count: int | None = None
    """How many configs of that kernel survived pruning, 1 where it is not autotuned; None where `launch` is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The library declined the case in the way its op declares legitimate; nothing is wrong and nothing was tested."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """The engine cannot execute something that the kernel contains."""

    what: str
    """The TTIR op or construct: `tt.histogram`."""
    kernel: str
    source: Source | None
    triton_version: str
    ttir_file: str = ""
    """Where the kernel's TTIR was kept; empty where no folder was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """The process died.  Exactly one of `signal` and `status` says how."""

    signal: str | None
    """`SIGSEGV`."""
    status: int | None
    """The exit status, where the process left by itself."""
    log_tail: str
    launch: str | None = None
    """The kernel that was being launched, where known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """No answer within the limit; the process group was killed."""

    limit_s: float
    log_tail: str
    launch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory:
    """The case asked for more memory than its worker may have."""

    limit_bytes: int
    message: str


class Residency(StrEnum):
    """With how many programs resident at a time a launch that got stuck would come to its end."""

    AT_LEAST = "at least"
    AT_MOST = "at most"
    NONE = "none"
    """With one, with all and with as many as the GPU holds it gets stuck."""
    UNKNOWN = "unknown"
    """Too many programs to try, or a try ended otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Programs of a launch that wait until a cell changes."""

    argument: str
    index: tuple[int, ...]
    """The first cell that they read over and over, as an index into the argument's tensor."""
    cells: int
    """How many cells each of them reads over and over."""
    source: Source | None
    """The line that reads it."""
    programs: int
    first_programs: tuple[int, ...]
    """Up to four linear program ids, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlocked:
    """A launch got stuck: every program that the GPU could hold waits for memory that no other will change."""

    kernel: str
    waits: tuple[Wait, ...]
    """Up to four, what most programs wait for first; empty where they run in circles without reading anything."""
    programs: int
    """Of the launch."""
    resident: int
    """Programs that wait."""
    not_started: int
    """Programs that would begin when one of those ended."""
    sm_count: int
    programs_per_sm: int
    """The occupancy: how many programs of this kernel an SM holds."""
    limited_by: str
    """What keeps an SM from holding more: `registers`, `shared memory`, `threads`, `blocks`."""
    ends_with: Residency
    limit: int
    """The number of programs that `ends_with` speaks of; 0 where it names none."""


Ending = Completed | Raised | Refused | Unsupported | Crashed | TimedOut | OutOfMemory | Deadlocked


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


class Region(StrEnum):
    """Where a stray access landed."""

    OUTSIDE_STORAGE = "outside the storage"
    OUTSIDE_VIEW = "outside the view, inside its storage"
    IN_GAP = "in a gap between the view's rows"
    NULL = "through a null pointer"
    UNKNOWN_POINTER = "through a pointer that belongs to no argument"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where in which launch an access happened."""

    kernel: str
    launch: int
    """Index into `Run.launches`."""
    argument: str
    """The kernel's name of the pointer argument: `dx`."""
    source: Source | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Elements stored non-atomically by more than one program of one launch."""

    site: Site
    same_bytes: bool
    """Every program stored the same bytes to each such element; false if one differed."""
    cells: int
    first_cells: tuple[tuple[int, ...], ...]
    """Up to four indices into the argument's tensor, ascending."""
    programs: tuple[int, int]
    """Two linear program ids that stored the first cell."""
    where: Spread | None = field(default=None, compare=False)
    """All such cells, to be drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderDependence:
    """A program read elements that another program of the same launch stores non-atomically."""

    site: Site
    """The load."""
    cells: int
    first_cells: tuple[tuple[int, ...], ...]
    programs: tuple[int, int]
    """Reader and writer of the first cell."""
    where: Spread | None = field(default=None, compare=False)
    """All such cells, to be drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """Accesses outside what the argument covers.

    Stores are dropped.  Loads outside the storage read zero; inside it they read what lies there, as on the GPU.
    """

    site: Site
    access: Access
    region: Region
    lanes: int
    program: int
    """The first program that did it."""
    element: int
    """Its first such element, counted from the argument's first element in units of its element type."""
    where: Reach | None = field(default=None, compare=False)
    """From the lowest to the highest such element, to be drawn; None where the pointer belongs to no argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UninitialisedRead:
    """A load of elements that nobody had written since `torch.empty` handed them out."""

    site: Site
    cells: int
    first_cells: tuple[tuple[int, ...], ...]
    program: int
    where: Spread | None = field(default=None, compare=False)
    """All such cells, to be drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndefinedLanes:
    """A masked load without `other` that really masked lanes off: their values are undefined."""

    site: Site
    lanes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertFailed:
    """A device assertion did not hold; the GPU would have ended the launch, the virtual one goes on."""

    site: Site
    """The assertion; its argument is empty."""
    message: str
    lanes: int
    program: int
    """The first program in which it failed."""


MemoryEvent = Overlap | OrderDependence | Stray | UninitialisedRead | UndefinedLanes | AssertFailed


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
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """By part of the work: `inputs`, `front_end`, `parse`, `execution`, `reference`, `compare`, `host`."""
