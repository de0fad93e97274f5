"""The report of compute-sanitizer on a case: its records, which are accepted, and the proof that it checked.

`harness.engines.cuda` reads these facts from the tool's log, and the oracle `compute-sanitizer` judges them.
"""

from dataclasses import dataclass
from enum import StrEnum

from harness.model.ending import Source

Index = tuple[int, int, int]
"""The indices x, y and z of a block or a thread."""


class Tool(StrEnum):
    """A tool of compute-sanitizer.  Each detects one kind of mistake, and a process runs under one of them."""

    MEMCHECK = "memcheck"
    RACECHECK = "racecheck"
    INITCHECK = "initcheck"
    SYNCCHECK = "synccheck"

    @property
    def promise(self) -> str:
        """What is true of a kernel on which the tool reports nothing."""
        match self:
            case Tool.MEMCHECK:
                return "every access of memory is aligned and inside an allocation"
            case Tool.RACECHECK:
                return "barriers order the accesses of shared memory by threads of a program"
            case Tool.INITCHECK:
                return "no global memory is read before it is written"
            case Tool.SYNCCHECK:
                return "every barrier is reached by the threads that it waits for"


class Level(StrEnum):
    """The tool's certainty that something is wrong."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """One of the accesses in a record."""

    direction: str
    """`read`, `write` or `atomic`; empty if unknown."""
    kernel: str
    """Name of the function on the GPU; empty if unknown."""
    source: Source | None = None
    program: Index | None = None
    thread: Index | None = None

    def __str__(self) -> str:
        place = f" ({self.source})" if self.source else ""
        return f"{self.direction or 'access'} in {self.kernel or 'an unknown kernel'}{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerRecord:
    """All reports of the tool for one kernel, line and kind."""

    kind: str
    """The tool's class of report: `Precise`, `Initcheck`."""
    text: str
    """The text of the first report."""
    what: str
    """The text without sizes and addresses, equal in every run: `out of bounds write`, `race`."""
    level: Level
    at: Touch
    """The access of the first report."""
    others: tuple[Touch, ...] = ()
    """The other accesses of a race."""
    space: str = ""
    """`global`, `shared` or `local`."""
    size_bytes: int | None = None
    address: str = ""
    """The hexadecimal address in the process; it differs from run to run."""
    host: tuple[str, ...] = ()
    """The Python lines that launched the kernel, innermost first: `layernorm.py:612`."""
    count: int = 1
    """The number of reports of this kernel, line and kind that were kept."""
    accepted: str = ""
    """The reason for which the file of suppressions accepts it; empty if it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitized:
    """The report on a case that ran under compute-sanitizer."""

    tool: Tool
    version: str
    """The tool's version: `2025.3.1.0`."""
    records: tuple[SanitizerRecord, ...] = ()
    """All records, including accepted ones."""
    launches: int = 0
    """The number of kernel launches of the case; none is excluded from the checks."""
    unproven: str = ""
    """Why it is not certain that the case's kernels were instrumented; empty if it is.

    It is certain on two conditions.  The tool reported a planted mistake of another child of the same fork server.  And
    the tool was mapped into the process that ran the case.
    """
    incomplete: str = ""
    """Why there may have been more records; empty if these are all."""

    @property
    def name(self) -> str:
        """The name of the tool in reports."""
        return self.tool
