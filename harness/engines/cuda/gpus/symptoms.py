"""The state of a GPU, and its symptoms: facts with their sentences.  `health` reads them.

Xid events are symptoms that NVIDIA's kernel module reports when something goes wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

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


class XidFault(StrEnum):
    """The likely cause of an event."""

    KERNEL = "kernel"
    """A program misbehaved: the driver ends it, and the GPU stays usable."""
    GPU = "gpu"
    """The card, its memory, links or firmware failed: no kernel is to blame."""
    EITHER = "either"
    """The event does not show the cause."""


MEANINGS: dict[int, tuple[str, XidFault]] = {
    8: ("a kernel ran longer than the watchdog allows", XidFault.KERNEL),
    13: ("exception in the compute engine, usually a stray access or an illegal instruction", XidFault.KERNEL),
    31: ("page fault of the GPU's memory, usually a stray access", XidFault.KERNEL),
    43: ("the GPU stopped working for a program that misbehaved", XidFault.KERNEL),
    45: ("a program's remaining work was cleared away after it was killed or failed", XidFault.KERNEL),
    48: ("memory error of two bits, which ECC cannot correct", XidFault.GPU),
    61: ("internal microcontroller stopped", XidFault.GPU),
    62: ("internal microcontroller halted", XidFault.GPU),
    63: ("a row of memory was remapped, or noted to be", XidFault.GPU),
    64: ("a row of memory could not be remapped", XidFault.GPU),
    74: ("NVLink failed", XidFault.GPU),
    79: ("the GPU has fallen off the bus", XidFault.GPU),
    92: ("many memory errors that ECC corrected", XidFault.GPU),
    94: ("memory error that was contained within one program", XidFault.GPU),
    95: ("memory error that was not contained", XidFault.GPU),
    119: ("the GPU's system processor does not answer", XidFault.GPU),
    120: ("the GPU's system processor failed", XidFault.GPU),
    140: ("memory error that could not be corrected", XidFault.GPU),
}
"""A summary of NVIDIA's catalogue of Xid errors, for events that a machine with Triton kernels may meet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSymptom:
    """A reason not to use a GPU, or not to trust its results."""

    sentence: ClassVar[str]
    """The predicate and the remedy.  Its fields are those of the symptom."""
    blames_card: ClassVar[bool] = False
    """True if the card itself failed, so that failures of cases meanwhile blame no kernel."""

    uuid: str
    """The GPU; in an Xid event of a MIG slice its parent GPU."""

    def __str__(self) -> str:
        return f"{self.uuid} {self.sentence.format(self)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(GpuSymptom):
    """The GPU no longer answers."""

    sentence = "no longer answers: reset it (sudo nvidia-smi -r) or restart the machine"
    blames_card = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NotShared(GpuSymptom):
    """The compute mode prevents a second process from using the GPU."""

    sentence = (
        "is in compute mode {0.mode}, and several processes use a GPU in turn: sudo nvidia-smi -i {0.uuid} -c DEFAULT"
    )
    mode: ComputeMode


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignProcess(GpuSymptom):
    """A process of another program uses the GPU."""

    sentence = "is also used by {0.process}: time limits and memory are not ours alone"
    process: GpuProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRemapDue(GpuSymptom):
    """A row of memory waits to be replaced, or cannot be replaced."""

    sentence = "{0.remedy}"
    blames_card = True
    rows: RowRemap

    @property
    def remedy(self) -> str:
        if self.rows is RowRemap.FAILED:
            return "has no spare row left for memory that failed: have the card replaced"
        return "uses a row of memory that is to be replaced: reset it (sudo nvidia-smi -r) before trusting it"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryErrors(GpuSymptom):
    """ECC found errors that it could not correct."""

    sentence = "met {0.count} memory errors that ECC could not correct: its results are not to be trusted"
    blames_card = True
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChanged(GpuSymptom):
    """The compute mode was changed."""

    sentence = "was set from compute mode {0.before} to {0.after}"
    before: ComputeMode
    after: ComputeMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid(GpuSymptom):
    """An Xid event."""

    sentence = "reported Xid {0.code}: {0.meaning}"
    code: int

    @property
    def fault(self) -> XidFault:
        return MEANINGS.get(self.code, ("", XidFault.EITHER))[1]

    @property
    def meaning(self) -> str:
        return MEANINGS.get(self.code, ("see NVIDIA's catalogue of Xid errors", XidFault.EITHER))[0]


def concerns(snapshot: GpuSnapshot | Lost) -> tuple[GpuSymptom, ...]:
    """Return the reasons not to use the GPU, or not to trust its results."""
    return tuple(_concerns(snapshot))


def changes(before: GpuSnapshot, after: GpuSnapshot | Lost) -> tuple[GpuSymptom, ...]:
    """Return the changes between two snapshots that may explain a failure; improvements are left out.

    New processes that /proc does not show are left out too.  Inside a container the driver may report our own
    processes by the ids that they have outside.
    """
    return tuple(_changes(before, after))


def _concerns(snapshot: GpuSnapshot | Lost) -> Iterator[GpuSymptom]:
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


def _changes(before: GpuSnapshot, after: GpuSnapshot | Lost) -> Iterator[GpuSymptom]:
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
