"""The state of a GPU, concerns about using it, and changes between two states.

Facts with their sentences; `health` reads the facts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from harness.engines.cuda.gpus.inventory import ComputeMode


class RowRemap(StrEnum):
    """The state of remapping failed rows of GPU memory."""

    SETTLED = "settled"
    """No row waits; replaced rows are as good as others."""
    PENDING = "pending"
    """A failed row stays in use until the next reset of the GPU."""
    FAILED = "failed"
    """No spare row is left for a failed one."""
    UNKNOWN = "unknown"
    """The GPU has no row remapping, or does not report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process with a context on the GPU."""

    pid: int
    name: str
    """From /proc; empty for a process of another container or user."""
    memory_bytes: int | None
    """None if the driver does not report it."""

    def __str__(self) -> str:
        memory = "" if self.memory_bytes is None else f", {self.memory_bytes / 2**30:.1f} GiB"
        return f"process {self.pid} ({self.name or 'not visible from here'}{memory})"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSnapshot:
    """The state of one GPU.  None means that the GPU does not report the fact; MIG slices report few."""

    uuid: str
    processes: tuple[GpuProcess, ...]
    """Processes that are not ours."""
    ecc_uncorrected: int | None
    """Memory errors that ECC could not correct, since the driver started."""
    rows: RowRemap
    utilisation_percent: int | None
    """The share of the last sampling interval (up to a second) in which a kernel ran."""
    compute_mode: ComputeMode | None
    memory_used_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The GPU no longer answers."""

    uuid: str

    def __str__(self) -> str:
        return f"{self.uuid} no longer answers: reset it (sudo nvidia-smi -r) or restart the machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotShared:
    """The compute mode prevents a second process from using the GPU."""

    uuid: str
    mode: ComputeMode

    def __str__(self) -> str:
        return (
            f"{self.uuid} is in compute mode {self.mode}, and several processes use a GPU in turn: "
            f"sudo nvidia-smi -i {self.uuid} -c DEFAULT"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignProcess:
    """A process of another program uses the GPU."""

    uuid: str
    process: GpuProcess

    def __str__(self) -> str:
        return f"{self.uuid} is also used by {self.process}: time limits and memory are not ours alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRemapDue:
    """A row of memory waits to be replaced, or cannot be replaced."""

    uuid: str
    rows: RowRemap

    def __str__(self) -> str:
        if self.rows is RowRemap.FAILED:
            return f"{self.uuid} has no spare row left for memory that failed: have the card replaced"
        return (
            f"{self.uuid} uses a row of memory that is to be replaced: reset it (sudo nvidia-smi -r) before trusting it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryErrors:
    """ECC found errors that it could not correct."""

    uuid: str
    count: int

    def __str__(self) -> str:
        return (
            f"{self.uuid} met {self.count} memory errors that ECC could not correct: its results are not to be trusted"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChanged:
    """The compute mode was changed."""

    uuid: str
    before: ComputeMode
    after: ComputeMode

    def __str__(self) -> str:
        return f"{self.uuid} was set from compute mode {self.before} to {self.after}"


Concern = Lost | NotShared | ForeignProcess | RowRemapDue | MemoryErrors
Change = Lost | ModeChanged | ForeignProcess | RowRemapDue | MemoryErrors


def concerns(snapshot: GpuSnapshot | Lost) -> tuple[Concern, ...]:
    """Return the reasons not to use the GPU, or not to trust its results."""
    return tuple(_concerns(snapshot))


def changes(before: GpuSnapshot, after: GpuSnapshot | Lost) -> tuple[Change, ...]:
    """Return the changes between two snapshots that may explain a failure; improvements are left out.

    New processes that /proc does not show are left out too.  Inside a container the driver may report our own
    processes by the ids that they have outside.
    """
    return tuple(_changes(before, after))


def is_hardware_fault(change: Concern | Change) -> bool:
    """Return True if the card itself failed, so that failures of cases meanwhile blame no kernel."""
    return isinstance(change, Lost | RowRemapDue | MemoryErrors)


def _concerns(snapshot: GpuSnapshot | Lost) -> Iterator[Concern]:
    if isinstance(snapshot, Lost):
        yield snapshot
        return
    if snapshot.compute_mode not in (None, ComputeMode.SHARED):
        yield NotShared(uuid=snapshot.uuid, mode=snapshot.compute_mode)
    for process in snapshot.processes:
        yield ForeignProcess(uuid=snapshot.uuid, process=process)
    if snapshot.rows in (RowRemap.PENDING, RowRemap.FAILED):
        yield RowRemapDue(uuid=snapshot.uuid, rows=snapshot.rows)
    if snapshot.ecc_uncorrected:
        yield MemoryErrors(uuid=snapshot.uuid, count=snapshot.ecc_uncorrected)


def _changes(before: GpuSnapshot, after: GpuSnapshot | Lost) -> Iterator[Change]:
    if isinstance(after, Lost):
        yield after
        return
    if before.compute_mode and after.compute_mode and before.compute_mode is not after.compute_mode:
        yield ModeChanged(uuid=after.uuid, before=before.compute_mode, after=after.compute_mode)
    known = {process.pid for process in before.processes}
    for process in after.processes:
        if process.name and process.pid not in known:
            yield ForeignProcess(uuid=after.uuid, process=process)
    if after.rows is not before.rows and after.rows in (RowRemap.PENDING, RowRemap.FAILED):
        yield RowRemapDue(uuid=after.uuid, rows=after.rows)
    if (more := (after.ecc_uncorrected or 0) - (before.ecc_uncorrected or 0)) > 0:
        yield MemoryErrors(uuid=after.uuid, count=more)
