"""What is known of a GPU's state besides what runs on it, what speaks against using it, and what changed meanwhile.

Facts and their sentences; `health` reads them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from harness.cuda.gpus.inventory import ComputeMode


class RowRemap(StrEnum):
    """How far the GPU is with replacing rows of its memory that failed."""

    SETTLED = "settled"
    """None waits; rows that were replaced are as good as others."""
    PENDING = "pending"
    """A row is replaced when the GPU is next reset; until then it is in use."""
    FAILED = "failed"
    """There is no spare row left for one that failed."""
    UNKNOWN = "unknown"
    """The GPU has no such thing, or does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process with a context on the GPU."""

    pid: int
    name: str
    """From /proc; empty where that does not show the process: it is of another container or another user."""
    memory_bytes: int | None
    """None where the driver does not tell."""

    def __str__(self) -> str:
        memory = "" if self.memory_bytes is None else f", {self.memory_bytes / 2**30:.1f} GiB"
        return f"process {self.pid} ({self.name or 'not visible from here'}{memory})"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSnapshot:
    """One GPU at one moment.  None stands where the GPU does not tell; a MIG slice tells little."""

    uuid: str
    processes: tuple[GpuProcess, ...]
    """Those that are not ours."""
    ecc_uncorrected: int | None
    """Memory errors that ECC could not correct, since the driver was loaded."""
    rows: RowRemap
    utilisation_percent: int | None
    """Of the last sampling interval (up to a second), the part in which a kernel ran."""
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
    """The compute mode keeps a second process from using the GPU."""

    uuid: str
    mode: ComputeMode

    def __str__(self) -> str:
        return (
            f"{self.uuid} is in compute mode {self.mode}, and several processes use a GPU in turn: "
            f"sudo nvidia-smi -i {self.uuid} -c DEFAULT"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """Somebody else computes on the GPU."""

    uuid: str
    process: GpuProcess

    def __str__(self) -> str:
        return f"{self.uuid} is also used by {self.process}: time limits and memory are not ours alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsAwait:
    """A row of memory is waiting to be replaced, or cannot be."""

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
    """ECC met errors that it could not correct."""

    uuid: str
    count: int

    def __str__(self) -> str:
        return (
            f"{self.uuid} met {self.count} memory errors that ECC could not correct: its results are not to be trusted"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChanged:
    """Somebody set another compute mode."""

    uuid: str
    before: ComputeMode
    after: ComputeMode

    def __str__(self) -> str:
        return f"{self.uuid} was set from compute mode {self.before} to {self.after}"


Concern = Lost | NotShared | Company | RowsAwait | MemoryErrors
Change = Lost | ModeChanged | Company | RowsAwait | MemoryErrors


def concerns(seen: GpuSnapshot | Lost) -> tuple[Concern, ...]:
    """What speaks against using the GPU, or against trusting what it shows."""
    return tuple(_concerns(seen))


def changes(before: GpuSnapshot, after: GpuSnapshot | Lost) -> tuple[Change, ...]:
    """What happened to a GPU between two snapshots that may explain a failure: what got better is left out.

    Newcomers that /proc does not show are left out too: inside a container the driver may give our own processes the
    numbers that they have outside.
    """
    return tuple(_changes(before, after))


def is_gpus_own_fault(change: Concern | Change) -> bool:
    """Whether it is the card's own failing, so that what cases showed meanwhile blames no kernel."""
    return isinstance(change, Lost | RowsAwait | MemoryErrors)


def _concerns(seen: GpuSnapshot | Lost) -> Iterator[Concern]:
    if isinstance(seen, Lost):
        yield seen
        return
    if seen.compute_mode not in (None, ComputeMode.SHARED):
        yield NotShared(uuid=seen.uuid, mode=seen.compute_mode)
    for process in seen.processes:
        yield Company(uuid=seen.uuid, process=process)
    if seen.rows in (RowRemap.PENDING, RowRemap.FAILED):
        yield RowsAwait(uuid=seen.uuid, rows=seen.rows)
    if seen.ecc_uncorrected:
        yield MemoryErrors(uuid=seen.uuid, count=seen.ecc_uncorrected)


def _changes(before: GpuSnapshot, after: GpuSnapshot | Lost) -> Iterator[Change]:
    if isinstance(after, Lost):
        yield after
        return
    if before.compute_mode and after.compute_mode and before.compute_mode is not after.compute_mode:
        yield ModeChanged(uuid=after.uuid, before=before.compute_mode, after=after.compute_mode)
    known = {process.pid for process in before.processes}
    for process in after.processes:
        if process.name and process.pid not in known:
            yield Company(uuid=after.uuid, process=process)
    if after.rows is not before.rows and after.rows in (RowRemap.PENDING, RowRemap.FAILED):
        yield RowsAwait(uuid=after.uuid, rows=after.rows)
    if (more := (after.ecc_uncorrected or 0) - (before.ecc_uncorrected or 0)) > 0:
        yield MemoryErrors(uuid=after.uuid, count=more)
