"""How a case ended: one of a few ways, each with what the parent process was told or saw of it.

Facts carry no judgement; `harness.oracles` turns them into verdicts.
"""

from dataclasses import dataclass, field
from enum import StrEnum

REFUSED_BUILDS = frozenset({"OutOfResources", "PTXASError", "CompileTimeAssertionFailure"})
"""The exceptions that Triton's autotuner takes for "not this config" (`Autotuner._bench`, 3.6 to 3.9)."""


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


class Doing(StrEnum):
    """What was being done with a kernel."""

    CALLED = "called"
    COMPILED = "compiled"
    LAUNCHED = "launched"
    WAITED_FOR = "waited for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """The process died.  Exactly one of `signal` and `status` says how."""

    signal: str | None
    """`SIGSEGV`."""
    status: int | None
    """The exit status, where the process left by itself."""
    log_tail: str
    launch: str | None = None
    """The kernel that was being compiled, launched or waited for, where one was."""
    doing: Doing = Doing.LAUNCHED
    """Which of these."""
    events: tuple[str, ...] = field(default=(), compare=False)
    """The last of what the process noted that it was doing, one line each."""


class HungParty(StrEnum):
    """Who did not come to an end."""

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
    """The kernel that was being compiled, launched or waited for; where the host waits, the last one launched."""
    waiting: HungParty = HungParty.UNKNOWN
    held_by: str = ""
    """What the operating system has the host's thread wait in, such as `futex`; empty where it runs on and on."""
    function: str = ""
    """The host's innermost Python function outside torch, Triton and the harness, where the host is at fault."""
    source: Source | None = None
    """Where the device spins, or where in `function` the host waits; of one that runs on, the line means nothing."""
    swallowed: tuple[str, ...] = ()
    """Exceptions that autotuners hid before, one sentence each."""
    evidence: tuple[str, ...] = field(default=(), compare=False)
    """What was seen of process and GPU before the kill, one sentence each."""
    events: tuple[str, ...] = field(default=(), compare=False)
    """The last of what the process noted that it was doing, one line each."""


class FaultOf(StrEnum):
    """What ended a process's work on a real GPU: none of it can be caught, and its CUDA context is lost."""

    ILLEGAL_ADDRESS = "illegal memory access"
    MISALIGNED_ADDRESS = "misaligned address"
    DEVICE_ASSERT = "device assertion"
    ILLEGAL_INSTRUCTION = "illegal instruction"
    OTHER = "CUDA error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faulted:
    """A kernel on a real GPU did what the GPU does not survive; whatever follows in the process fails too."""

    fault: FaultOf
    message: str
    """CUDA's first line, or the assertion's own."""
    launch: str | None
    """The kernel at fault: the last one launched, as every launch was waited for; None where none was."""
    source: Source | None = None
    """The line of an assertion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory:
    """The case asked for more memory than its worker may have, or the GPU."""

    limit_bytes: int
    """The worker's limit; 0 where an allocation failed for another reason, which the message tells."""
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


Ending = Completed | Raised | Refused | Unsupported | Crashed | TimedOut | Faulted | OutOfMemory | Deadlocked


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtime:
    """The case came to its end, but past the time limit; it was given more to tell slow from hung."""

    limit_s: float
    """What a case is given usually."""
    took_s: float = field(compare=False)
