"""The run: the facts of one case on one engine, as a child process reports them to its parent.

The facts are the ending, the launches, the errors of results against the reference, and memory events.  They carry no
judgement: `harness.oracles` turns them into verdicts.
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
from harness.model.engine_traits import EngineTraits, traits_of_engine
from harness.model.executed_lines import ExecutedLines
from harness.model.later_calls import GraphReplay, LaterCall
from harness.model.launch_difference import CaseAgreement
from harness.model.picture import ElementSpan, Spread
from harness.model.row_check import RowCheck
from harness.model.triton_sanitizer_report import Instrumented
from harness.model.tuning import InterruptedRun, KeyCheck, TunedRun

__all__ = [  # names of `harness.model.ending` that other modules import from here
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

STARVED = "starved"
"""The key of `Run.seconds` for time in which the process was ready to run and had no core."""


# --- what was launched -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel launch, as Triton hands it to its driver."""

    kernel: str
    source: Source | None
    """The line of the kernel's definition."""
    grid: tuple[int, int, int]
    config: str
    """The autotune config or the launch options, as Triton prints them: `BT: 64, num_warps: 4`."""
    config_index: int
    config_count: int
    """The number of configs after pruning; 1 if the kernel is not autotuned."""
    config_builds: tuple[str, ...] = ()
    """The builds of all these configs, in their order; empty unless the run was asked to compile them all.

    A config that does not compile to TTIR has an empty one.
    """
    refused: tuple[str, ...] = ()
    """Configs that were tried before this one, but do not compile or do not fit, each with its error."""
    num_warps: int
    num_ctas: int = 1
    """The blocks of a cluster, which execute one program together."""
    constants: Mapping[str, int | float | bool | str | None]
    """The values of the `tl.constexpr` parameters."""
    tile_sizes: tuple[int, ...]
    """The distinct extents above 1 of the tiles that the kernel loads and stores, ascending."""
    build: str
    """The digest of TTIR, options and architecture; equal builds have equal resources."""
    scratch_bytes: int = 0
    """Bytes requested from Triton's allocator for the launch."""
    atomics: bool = False
    """True if the kernel has atomics, so results may depend on the order of programs."""
    dot_precisions: tuple[str, ...] = ()
    """The distinct input precisions of the kernel's float32 `tt.dot`s, ascending: `("ieee", "tf32")`."""
    model: str = ""
    """What the launch is a model of; empty for a launch through Triton's own launcher.

    JAX launches kernels through jaxlib's call targets, of which the virtual GPU has a model.
    """
    is_benchmark: bool = False
    """True if the modelled runtime launches the kernel only to tune it."""
    executor: str = field(default="numpy", compare=False)
    """The executor on the virtual GPU, `numpy` or `native`.  It affects speed, never results."""
    threads_unknown: str = ""
    """Why races between the threads of a program could not be decided; empty if they could."""
    cut: bool = False
    """True if programs of an oversized case were stopped in the middle of long loops."""
    steered_by: tuple[str, ...] = ()
    """The arguments whose values an oversized case did not compute, and which decide what the kernel accesses."""


# --- what memory saw -------------------------------------------------------------------------------------------------


class Access(StrEnum):
    """The direction of a memory access."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"


class AddressSpace(StrEnum):
    """The kind of address that a stray access has."""

    OUTSIDE_STORAGE = "outside the storage"
    OUTSIDE_VIEW = "outside the view, inside its storage"
    IN_GAP = "in a gap between the view's rows"
    NULL = "through a null pointer"
    UNKNOWN_POINTER = "through a pointer that belongs to no argument"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSite:
    """The launch, the argument and the source line of an access."""

    kernel: str
    launch: int
    """The index into `Run.launches`."""
    argument: str
    """The name of the pointer parameter: `dx`."""
    source: Source | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Elements that one program of a launch stores, and that another program stores or updates atomically."""

    site: AccessSite
    same_bytes: bool
    """True if all programs stored the same bytes to each such element."""
    cells: int
    first_cells: tuple[tuple[int, ...], ...]
    """Up to four indices into the argument's tensor, ascending."""
    programs: tuple[int, int]
    """Linear ids of two programs that stored the first cell; with an atomic, the storing and the updating one."""
    atomic: bool = False
    """True if the other program's access is an atomic, and nothing orders the two."""
    is_whole: bool = True
    """True if the launch stores nothing else in the argument, so that programs do the same work."""
    cell_map: Spread | None = field(default=None, compare=False)
    """All such cells, for a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderDependence:
    """A program reads elements that another program of the launch stores or updates, and nothing orders the two."""

    site: AccessSite
    """The site of the load."""
    cells: int
    first_cells: tuple[tuple[int, ...], ...]
    programs: tuple[int, int]
    """Linear ids of the reader and the writer of the first cell."""
    atomic: bool = False
    """True if the write is an atomic."""
    cell_map: Spread | None = field(default=None, compare=False)
    """All such cells, for a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """Accesses outside the elements of the argument's tensor.

    The virtual GPU drops such stores.  Loads outside the storage read zero; inside the storage they read its contents.
    """

    site: AccessSite
    access: Access
    region: AddressSpace
    lanes: int
    program: int
    """The linear id of the first such program."""
    element: int
    """Its first such element, counted from the tensor's first element."""
    wrapped: bool = False
    """True if the index is inside the tensor once a multiple of 2^32 is added: a 32-bit offset has overflowed."""
    elements: ElementSpan | None = field(default=None, compare=False)
    """From the lowest to the highest such element, for a picture; None if the pointer belongs to no argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UninitialisedRead:
    """A load of elements that were never written since `torch.empty` allocated them."""

    site: AccessSite
    cells: int
    first_cells: tuple[tuple[int, ...], ...]
    program: int
    is_integer: bool = False
    """The memory is of integers, which have no NaN: what follows from it does not show by itself."""
    cell_map: Spread | None = field(default=None, compare=False)
    """All such cells, for a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwrittenUse:
    """Torch or the host uses elements that were never written since `torch.empty` allocated them."""

    site: AccessSite
    """The launch that stored to the memory last, and the line that allocated it; the kernel is empty if none did."""
    operator: str
    """The function of torch, as Python code has it: `torch.Tensor.max`."""
    used_at: Source | None
    dtype: str
    """Of the tensor that is used, as torch names it: `float32`."""
    shape: tuple[int, ...]
    cells: int
    """Its elements that were never written."""
    first_cell: tuple[int, ...]
    is_handed_over: bool = False
    """The host gets the whole memory, and it is not known which elements it uses."""
    is_stored_to_copy: bool = False
    """The launch stored to a copy of the memory."""
    overwritten_at: Source | None = None
    """The line that replays another CUDA graph, which has overwritten the memory; None if it was never written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndefinedLanes:
    """A masked load without `other` that masked lanes off: their values are undefined."""

    site: AccessSite
    lanes: int
    block_pointer: bool = False
    """True if the source loads through a block pointer with `boundary_check` and without `padding_option`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertFailed:
    """A device assertion did not hold.  A hardware GPU ends the launch; the virtual GPU continues."""

    site: AccessSite
    """The site of the assertion; its argument is empty."""
    message: str
    lanes: int
    program: int
    """The linear id of the first program in which it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseAssumption:
    """A `tl.assume` that does not hold.  No GPU checks it."""

    site: AccessSite
    """The site of the assumption; its argument is empty."""
    programs: int
    """The number of programs in which it is false; more if a program reaches it more than once."""
    program: int
    """The linear id of the first of them."""


class Hint(StrEnum):
    """A function of `triton.language` by which a kernel describes the lanes of a value to the compiler."""

    DIVISIBILITY = "tl.multiple_of"
    CONTIGUITY = "tl.max_contiguous"
    CONSTANCY = "tl.max_constancy"


class HintBreach(StrEnum):
    """Why a thread cannot access the lanes at once that a hint joins."""

    APART = "apart"
    """They are not neighbours in memory, in the order of the lanes."""
    MISALIGNED = "misaligned"
    """They are neighbours, and their first byte is no multiple of their size together."""
    UNEVEN = "uneven"
    """The mask has some of them and not the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseHint:
    """A hint that is false for lanes of an access which the compiler makes wider because of it.

    The virtual GPU moves each lane by itself.  A hardware GPU may move other elements, or end the launch.
    """

    site: AccessSite
    """The site of the hint, with the argument of the access."""
    hint: Hint
    values: tuple[int, ...]
    """What the hint promises, for each axis."""
    breach: HintBreach
    access: Source | None
    """The line of the access."""
    width: int
    """The number of lanes that a thread may access at once."""
    lanes: int
    """The number of lanes in such groups that cannot be accessed at once."""
    program: int
    """The linear id of the first program with such a group."""
    seen: tuple[int, ...]
    """In its first such group: for lanes apart, the elements of two of them, and how many lanes one is after the other.

    For misaligned lanes, the first element and its bytes beyond a multiple.  For uneven lanes, how many the mask has.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignArgument:
    """A launch passes an argument that the kernel was not compiled for: Triton compiled it for other values.

    Triton's own launches choose a build by their arguments.  A launch of a compiled kernel does not.
    """

    site: AccessSite
    """The site has no line."""
    promised: str
    """What the build relies on: `a multiple of 16`, `1`."""
    passed: str
    """What the launch passes: `8 bytes beyond a multiple of 16`, `24`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRace:
    """Cells that two warps of one program touch, one of them with a store, and no barrier orders the two accesses."""

    site: AccessSite
    """The site of the access that comes later in the kernel's text."""
    earlier: Source | None
    """The line of the earlier access."""
    accesses: tuple[Access, Access]
    """The directions of the earlier and the later access; at least one is a store."""
    cells: int
    first_cells: tuple[tuple[int, ...], ...]
    """Up to four indices into the argument's tensor; the first is the cell that the other fields describe."""
    program: int
    """The linear id of the first such program among those that were traced."""
    positions: tuple[tuple[int, ...], ...]
    """The cell's indices in the tiles of the earlier and the later access; empty for a scalar."""
    warps: tuple[int, int]
    """The warps of the program that make the earlier and the later access to the cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowAtomic:
    """Cells that programs update by atomics of which at least one has the scope of a single program."""

    site: AccessSite
    cells: int
    first_cells: tuple[tuple[int, ...], ...]
    programs: tuple[int, int]
    """Linear ids of two programs that updated the first cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trampled:
    """On a hardware GPU: a redzone around a tensor, or between its rows, has lost its pattern."""

    site: AccessSite
    """The launch that did it; without a kernel if no launch does it when the case runs again."""
    region: AddressSpace
    cells: int
    """The number of changed elements of the tensor's type."""
    element: int
    """The first changed element, counted from the tensor's first element."""


DESCRIPTOR_BYTES = 16
"""The alignment, in bytes, that tensor descriptors need since compute capability 9.0."""


class Unaligned(StrEnum):
    """The part of a tensor descriptor that does not begin at a multiple of 16 bytes."""

    TENSOR = "its tensor"
    ROW = "a row of its tensor"
    BLOCK = "a block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Misaligned:
    """A misaligned tensor descriptor.  A hardware GPU ends the launch; the virtual GPU continues."""

    site: AccessSite
    """The site where the descriptor is made, or where a block moves through it."""
    what: Unaligned
    off_by: int
    """The distance in bytes from the preceding multiple of 16, in the first such program."""
    program: int
    """The linear id of the first such program."""


class ScratchFlaw(StrEnum):
    """What is wrong with the scratch memory of a launch."""

    MISSING = "no allocator"
    TOO_SMALL = "too small"
    MISALIGNED = "misaligned"
    FREED = "freed"
    """Nothing holds the memory any more while the kernel uses it."""
    SHARED = "in use"
    """The memory belongs to something else that the kernel uses."""
    READ = "read"
    """The kernel loads from it what it has not stored there."""
    STORED = "stored"
    """The kernel's own stores land in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchFault:
    """A flaw of the scratch memory that a launch needs, mostly for descriptors that the kernel makes."""

    site: AccessSite
    """The operation that needs the memory; for a load, the site of the load."""
    what: ScratchFlaw
    needed_bytes: int
    """Grid times CTAs times the bytes of a program."""
    align: int
    bytes_per_program: int
    has: int = 0
    """Bytes there are; for misaligned memory, those beyond a multiple; for stores, those overwritten."""
    other: str = ""
    """Where an allocator is set instead, or what else uses the memory."""
    programs: tuple[int, ...] = ()
    """For a load the program that loads; for a store the program whose part is overwritten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledFlaw:
    """Something that the compiled kernel does and no right one does: a race in shared memory, a misaligned access."""

    kind: str
    """`race`, `misaligned`, …; the oracle that judges it knows the kinds."""
    site: AccessSite
    """The line that the instruction was made for; its argument is empty."""
    opcode: str
    text: str
    """What was seen, for example an address."""
    count: int
    """How often it was seen."""
    program: int
    """The linear id of the first program."""
    warp: int
    """The warp of the program."""
    earlier: Source | None = None
    """The line of the earlier instruction, if two conflict."""
    earlier_opcode: str = ""
    earlier_warp: int = -1


MemoryEvent = (
    Overlap
    | OrderDependence
    | Stray
    | UninitialisedRead
    | UnwrittenUse
    | UndefinedLanes
    | AssertFailed
    | FalseAssumption
    | FalseHint
    | ForeignArgument
    | Misaligned
    | ThreadRace
    | NarrowAtomic
    | Trampled
    | ScratchFault
    | CompiledFlaw
)


# --- how right the results are ---------------------------------------------------------------------------------------


class Role(StrEnum):
    """The role of a result: an output of the op, or the gradient of an input."""

    OUTPUT = "output"
    GRADIENT = "gradient"


Writer = tuple[str, str] | None
"""The kernel and the argument through which a tensor was stored; None if no launch stored it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """An error in units of its tolerance (above 1 is wrong), with the element where it is largest."""

    ratio: float
    index: tuple[int, ...]
    got: float
    expected: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One output or gradient compared with its float64 reference."""

    name: str
    """`y` for the output (`y0`, `y1`, … for several), `d:x` for the gradient of input x."""
    role: Role
    shape: tuple[int, ...]
    kind: str = ""
    """As `ResultForm.kind`."""
    whole: Measure
    """The root-mean-square error over the whole tensor; the index is that of the worst element."""
    worst_tile: Measure
    """The root-mean-square error over the worst tile: a row, or a part of a vector.  It shows a single wrong row."""
    unwritten: int
    """The number of elements that were never written since `torch.empty`."""
    first_unwritten: tuple[int, ...] | None
    nonfinite: int
    """The number of elements that are NaN or infinite although the reference is finite."""
    unjudged: int = 0
    """The number of elements that are not checked: their definition is not finite, or beyond the type's range."""
    digest: str
    """The digest of the bytes; equal for results that are equal bit for bit."""
    writer: Writer = None
    """The kernel and the argument through which it was stored last; None if torch made it."""
    sketch: tuple[float, ...] = ()
    """Seeded random projections, one for each block of elements, to compare runs without moving tensors."""
    sketch_tolerance: tuple[float, ...] = ()
    """For each projection, the part of this run in the allowed difference of two runs."""
    wrong_map: Spread | None = field(default=None, compare=False)
    """Errors in units of the tolerance, for a picture; None if all elements are right."""
    unwritten_map: Spread | None = field(default=None, compare=False)
    """The elements that were never written, for a picture."""

    @property
    def is_right(self) -> bool:
        """True if the result is within its tolerance, as a whole and in every tile."""
        return self.whole.ratio <= 1 and self.worst_tile.ratio <= 1 and not self.nonfinite


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultForm:
    """The form of one output or gradient."""

    kind: str
    """The element type, such as `float32`; for an object that is no tensor, its class."""
    shape: tuple[int, ...] | None
    """None for an object that is no tensor."""

    def __str__(self) -> str:
        return f"a {self.kind}" if self.shape is None else f"{self.kind} of shape {self.shape}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormMismatch:
    """A result whose form differs from that of the definition's."""

    name: str
    """As `Result.name`."""
    got: ResultForm | None
    """None if the library returns no such result."""
    expected: ResultForm | None
    """None if the definition has no such result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NanResult:
    """A floating-point output or gradient that holds NaN, and that has no definition to be compared with."""

    name: str
    """As `Result.name`."""
    shape: tuple[int, ...]
    cells: int
    """How many of them are NaN."""
    first: tuple[int, ...]
    """The index of the first."""
    unwritten: int
    """How many of them nothing has stored since they were allocated."""
    writer: Writer
    """As `Result.writer`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartlyStored:
    """A fresh tensor that a kernel stores, with elements that nothing has stored at the end of the case.

    Partial sums are an example, with a row for each SM and a launch of fewer programs.
    """

    launch: int
    """The index of the launch that stored into it last."""
    argument: str
    shape: tuple[int, ...]
    cells: int
    """Elements that nothing has stored."""
    rows: tuple[int, int] | None
    """The first and the last row without any stored element; None if there is none.  Of a vector, its elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refilled:
    """A second run of the same case, with other values in lanes that masked loads leave undefined."""

    ending: Ending
    digests: Mapping[str, str]
    """The digest of each result's bytes, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRounding:
    """What rounding does in one launch."""

    launch: int
    """The index of the launch among those of the case."""
    kernel: str
    operation: str
    """The operation whose result exceeds its operands' errors by most, by its TTIR name: `arith.truncf`."""
    source: Source | None
    before: float
    """The largest error of its operands, relative to their size, at most 1."""
    after: float
    """The error of its result."""
    cancelled: float
    """The largest term of a sum that is zero but for the last digit of float32; 0 if there is none."""

    @property
    def growth(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactComparison:
    """One result of an exact run beside its definition."""

    name: str
    """As `Result.name`."""
    is_known: bool
    """True if the exact run could follow every element."""
    worst: Measure
    """The exact value against the definition, in units of the bound.  Above 1 the algorithm is wrong."""
    error: float
    """The error of the library's own result relative to the tensor's size, in the worst tile."""
    usual_error: float
    """The same of the definition, computed by torch in the case's type."""
    absolute_error: float
    """The root-mean-square error of the library's own result, in the worst tile."""
    size: float
    """The root-mean-square of the definition."""

    @property
    def is_right(self) -> bool:
        """True if the exact value is known, and agrees with the definition."""
        return self.is_known and self.worst.ratio <= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactRun:
    """A second run of the same case, with a float64 value beside each value that it rounds."""

    comparisons: tuple[ExactComparison, ...] = ()
    doubts: tuple[str, ...] = ()
    """What could not be followed, and decisions that rounding alone made."""
    obstacle: str = ""
    """Why there is no comparison; empty if there is."""
    roundings: tuple[LaunchRounding, ...] = ()
    """One for each launch; empty if every result is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """A second run of the same case, with nothing changed."""

    ending: Ending
    digests: Mapping[str, str]
    """The digest of each result's bytes, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The hardware GPU on which a case ran, and how it falls short of the emulated one."""

    name: str
    capability: tuple[int, int]
    sm_count: int
    driver: str
    shortfalls: tuple[str, ...] = ()
    """The differences that emulation cannot hide, a sentence each; empty if there are none."""


# --- all of it -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuJudgement:
    """How the definition of a case that ran on a hardware GPU was computed: on that GPU too."""

    is_checked: bool
    """True if the CPU computed it as well, and decided."""
    differing: tuple[str, ...] = ()
    """Names of the results whose definitions in float64 differ between GPU and CPU by more than rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The facts of one case on one engine."""

    case: Case
    engine: str
    ending: Ending
    launches: tuple[Launch, ...] = ()
    lines: tuple[ExecutedLines, ...] = ()
    """The lines of kernels that the launches executed; empty on engines other than the virtual GPU's TTIR machine."""
    results: tuple[Result, ...] = ()
    """Those that could be compared."""
    notes: tuple[str, ...] = ()
    """What the op told Hypothesis's `note`."""
    unasked: tuple[str, ...] = ()
    """Functions of `Case.picked` that the library did not call: the case says nothing about their configs."""
    eager: Mapping[str, int] = field(default_factory=dict[str, int])
    """What torch's own operators computed of a compiled program, with the number of calls: `aten.mm`, a graph break."""
    mismatches: tuple[FormMismatch, ...] = ()
    """The results whose shape, type or presence differs from the definition's; outputs before gradients."""
    is_undefined: bool = False
    """True if the op has no definition, or one that is still to be written: no result was compared."""
    nans: tuple[NanResult, ...] = ()
    """The results of an undefined op that hold NaN although no input does, nor infinity."""
    partly_stored: tuple[PartlyStored, ...] = ()
    """Empty unless a result holds NaN or infinity."""
    memory: tuple[MemoryEvent, ...] = ()
    refilled: Refilled | None = None
    """None if no lane was undefined, or the case did not complete."""
    exact: ExactRun | None = None
    """None unless a result is wrong, or the case is one of a share."""
    repeated: Repeated | None = None
    """Set for sampled cases on a hardware GPU."""
    tuned: TunedRun | None = None
    """Set on the virtual GPU for sampled cases with an autotuned kernel."""
    keys: KeyCheck | None = None
    """Set on the virtual GPU for other sampled cases with an autotuned kernel."""
    interrupted: InterruptedRun | None = None
    """Set on the virtual GPU for some sampled cases of an op that several threads may call."""
    later: LaterCall | None = None
    """Set on the virtual GPU for some sampled cases."""
    replayed: GraphReplay | None = None
    """Set on the virtual GPU for some sampled cases of an op that may be captured."""
    rows: RowCheck | None = None
    """Set for sampled cases of an op that declares independent rows."""
    agreement: CaseAgreement | None = None
    """None unless both the virtual and a hardware GPU ran."""
    hardware: Hardware | None = None
    """None on the virtual GPU."""
    judged_on_gpu: GpuJudgement | None = None
    """None if the CPU alone judged the results."""
    overtime: Overtime | None = None
    """None if it ended within the usual time limit."""
    sanitizer: Sanitized | None = None
    """None if the process did not run under compute-sanitizer."""
    instrumented: Instrumented | None = None
    """None if Triton compiled the kernels without a sanitizer of its own."""
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds by part of the work.

    The parts are `inputs`, `front_end`, `parse`, `threads`, `execution`, `reference`, `compare` and `host`.
    `STARVED` is the time in which a busy machine gave the process no core, if that was seen.
    """

    @property
    def engine_traits(self) -> EngineTraits:
        return traits_of_engine(self.engine)

    def source_of(self, kernel: str) -> Source | None:
        """Return where a kernel begins; None unless it was launched."""
        return next((launch.source for launch in self.launches if launch.kernel == kernel), None)
