"""What compute-sanitizer said of a case: its records, which of them are accepted, and what proves that it watched.

Owns the facts of one run under one of its tools, which `harness.cuda` reads and the oracle `compute-sanitizer` judges.
"""

from dataclasses import dataclass
from enum import StrEnum

from harness.model.ending import Source

Index = tuple[int, int, int]
"""x, y and z of a block or a thread."""


class Tool(StrEnum):
    """One of compute-sanitizer's tools; each looks for one kind of mistake, and a process runs under one of them."""

    MEMCHECK = "memcheck"
    RACECHECK = "racecheck"
    INITCHECK = "initcheck"
    SYNCCHECK = "synccheck"

    @property
    def promise(self) -> str:
        """What a kernel keeps that the tool is silent on."""
        match self:
            case Tool.MEMCHECK:
                return "every access of memory is aligned and inside an allocation"
            case Tool.RACECHECK:
                return "threads of a program access shared memory in an order that barriers settle"
            case Tool.INITCHECK:
                return "no global memory is read before it is written"
            case Tool.SYNCCHECK:
                return "every barrier is reached by the threads that it waits for"


class Level(StrEnum):
    """How sure the tool is that something is wrong."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """One of the accesses that a record is about."""

    direction: str
    """`read`, `write` or `atomic`; empty where the tool does not say."""
    kernel: str
    """Name of the function on the GPU; empty where the tool does not know."""
    source: Source | None = None
    program: Index | None = None
    thread: Index | None = None

    def __str__(self) -> str:
        place = f" ({self.source})" if self.source else ""
        return f"{self.direction or 'access'} in {self.kernel or 'an unknown kernel'}{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerRecord:
    """What the tool reported, as often as it did for one kernel, line and kind."""

    kind: str
    """The tool's own class: `Precise`, `Initcheck`."""
    text: str
    """The first report's own words."""
    what: str
    """Those words less sizes and addresses, the same in every run: `out of bounds write`, `race`."""
    level: Level
    at: Touch
    """Where the first report was."""
    others: tuple[Touch, ...] = ()
    """The other accesses of a race."""
    space: str = ""
    """`global`, `shared` or `local`."""
    size_bytes: int | None = None
    address: str = ""
    """Hexadecimal, in the process that ran; it differs from run to run."""
    host: tuple[str, ...] = ()
    """Lines of Python that launched the kernel, innermost first: `layernorm.py:612`."""
    count: int = 1
    """Reports of this kernel, line and kind that were kept."""
    accepted: str = ""
    """Why the file of suppressions accepts it; empty where it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitized:
    """A case under compute-sanitizer."""

    tool: Tool
    version: str
    """`2025.3.1.0`"""
    records: tuple[SanitizerRecord, ...] = ()
    """The accepted ones too."""
    launches: int = 0
    """Kernel launches of the case, none of which was filtered out."""
    unproven: str = ""
    """Why it is not certain that the case's kernels were instrumented; empty where it is.

    It is certain where the tool had reported a planted mistake of another child of the same fork server, and was mapped
    into the process that ran the case.
    """
    incomplete: str = ""
    """Why there may have been more records than these; empty where these are all."""

    @property
    def name(self) -> str:
        """What the records are told to be of."""
        return self.tool
