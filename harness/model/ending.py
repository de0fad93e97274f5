"""The ending of a case: one class for each way to end, with what the parent process knows of it.

These are facts without judgement.  `harness.oracles` turns them into verdicts.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from signal import Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A line of Python source.  `file` is an absolute path, or one relative to site-packages."""

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
    """The class name: `RuntimeError`."""
    message: str
    source: Source | None
    """The innermost frame outside torch, Triton and the harness; None if there is none."""
    phase: str
    """`forward` or `backward`; in `inputs`, `reference` and `compare` the suite is at fault."""
    traceback: str
    cause: str = ""
    """Class and text of the exception that began the chain of causes; empty if the message already has its text."""
    launch: str | None = None
    """The kernel that was being built or launched, if one was."""
    config_count: int | None = None
    """The number of configs of that kernel after pruning, 1 if it is not autotuned; None if `launch` is None."""
    in_op: bool = False
    """True if the op's own function raised it, and no function that this called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The library refused the case by an exception that its op declares legitimate; nothing was tested."""

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
    """The file with the kernel's TTIR; empty if no folder was given for it."""


class Doing(StrEnum):
    """The stage of a kernel when its process died."""

    CALLED = "called"
    COMPILED = "compiled"
    LAUNCHED = "launched"
    WAITED_FOR = "waited for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """The process died.  Exactly one of `signal` and `status` is set."""

    signal: str | None
    """The name of the signal: `SIGSEGV`."""
    status: int | None
    """The exit status of a process that exited by itself."""
    log_tail: str
    launch: str | None = None
    """The kernel that was being compiled, launched or waited for, if one was."""
    doing: Doing = Doing.LAUNCHED
    events: tuple[str, ...] = field(default=(), compare=False)
    """The last events of the flight recorder, one line each."""

    @property
    def was_killed(self) -> bool:
        """True if SIGKILL ended the process: another process or Linux sent it, unless the process sent it to itself."""
        return self.signal == Signals.SIGKILL.name


class HungParty(StrEnum):
    """The party that did not finish."""

    COMPILER = "compiler"
    DEVICE = "device"
    HOST = "host"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """No answer within the limit; the process group was killed."""

    limit_s: float
    log_tail: str
    launch: str | None = None
    """The kernel that was being compiled, launched or waited for; if the host waits, the last one launched."""
    waiting: HungParty = HungParty.UNKNOWN
    held_by: str = ""
    """The kernel function of Linux in which the host's thread waits, such as `futex`; empty if the thread runs."""
    function: str = ""
    """The host's innermost Python function outside torch, Triton and the harness, if the host is at fault."""
    source: Source | None = None
    """The line where the device spins, or where the host waits in `function`; meaningless if the host runs."""
    swallowed: tuple[str, ...] = ()
    """Exceptions that autotuners swallowed before, one sentence each."""
    phase: str = field(default="", compare=False)
    """The phase of the case by then: `inputs`, `forward`, `backward`, …; empty if none is known."""
    evidence: tuple[str, ...] = field(default=(), compare=False)
    """Observations of process and GPU before the kill, one sentence each."""
    events: tuple[str, ...] = field(default=(), compare=False)
    """The last events of the flight recorder, one line each."""


class FaultOf(StrEnum):
    """The kinds of faults on a hardware GPU.  None can be caught, and the process loses its CUDA context."""

    ILLEGAL_ADDRESS = "illegal memory access"
    MISALIGNED_ADDRESS = "misaligned address"
    DEVICE_ASSERT = "device assertion"
    ILLEGAL_INSTRUCTION = "illegal instruction"
    OTHER = "CUDA error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faulted:
    """A kernel on a hardware GPU destroyed the CUDA context; every later call in the process fails too."""

    fault: FaultOf
    message: str
    """The first line of CUDA's error, or the text of the assertion."""
    launch: str | None
    """The kernel at fault; None if none was launched.  It is the last one launched, since each launch is waited for."""
    source: Source | None = None
    """The line of an assertion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory:
    """The case needs more memory than its worker may use, or than the GPU has."""

    limit_bytes: int
    """The worker's limit; 0 if an allocation failed for another reason, which the message has."""
    message: str


class Residency(StrEnum):
    """The number of resident programs with which a deadlocked launch would end."""

    AT_LEAST = "at least"
    AT_MOST = "at most"
    NONE = "none"
    """It deadlocks with one program, with all, and with as many as the GPU holds."""
    UNKNOWN = "unknown"
    """There are too many programs to try, or a try ended in another way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Programs of a launch that wait until a cell changes."""

    argument: str
    index: tuple[int, ...]
    """The first cell that they poll, as an index into the argument's tensor."""
    cells: int
    """The number of cells that each of them polls."""
    source: Source | None
    """The line that polls."""
    programs: int
    first_programs: tuple[int, ...]
    """Up to four linear program ids, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlocked:
    """A launch deadlocked: each resident program waits for memory that no other resident program will change."""

    kernel: str
    waits: tuple[Wait, ...]
    """Up to four, those of most programs first; empty if programs loop without reading memory."""
    programs: int
    """The number of programs of the launch."""
    resident: int
    """The number of resident programs, all of which wait."""
    not_started: int
    """The number of programs that begin only when a resident one ends."""
    sm_count: int
    programs_per_sm: int
    """The occupancy: the number of programs of this kernel that fit an SM."""
    limited_by: str
    """The resource that limits the occupancy: `registers`, `shared memory`, `threads`, `blocks`."""
    ends_with: Residency
    limit: int
    """The number of programs for `AT_LEAST` and `AT_MOST`; 0 otherwise."""


Ending = Completed | Raised | Refused | Unsupported | Crashed | TimedOut | Faulted | OutOfMemory | Deadlocked


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtime:
    """The case completed after its time limit; it got more time, to tell slow cases from hung ones."""

    limit_s: float
    """The usual time limit."""
    took_s: float = field(compare=False)
