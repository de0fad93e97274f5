"""Xid events: what the GPU's kernel module reports when something on a GPU went wrong, and whose fault it may be."""

from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """Where to look first."""

    KERNEL = "kernel"
    """A program on the GPU did something that it may not: it is ended, and the GPU is as good as before."""
    GPU = "gpu"
    """The card, its memory, its links or its firmware: no kernel is to blame."""
    EITHER = "either"
    """Nothing that is known here says."""


MEANINGS: dict[int, tuple[str, Fault]] = {
    8: ("a kernel ran longer than the watchdog allows", Fault.KERNEL),
    13: ("exception in the compute engine, usually a stray access or an illegal instruction", Fault.KERNEL),
    31: ("page fault of the GPU's memory, usually a stray access", Fault.KERNEL),
    43: ("the GPU stopped working for a program that misbehaved", Fault.KERNEL),
    45: ("a program's remaining work was cleared away after it was killed or failed", Fault.KERNEL),
    48: ("memory error of two bits, which ECC cannot correct", Fault.GPU),
    61: ("internal microcontroller stopped", Fault.GPU),
    62: ("internal microcontroller halted", Fault.GPU),
    63: ("a row of memory was remapped, or noted to be", Fault.GPU),
    64: ("a row of memory could not be remapped", Fault.GPU),
    74: ("NVLink failed", Fault.GPU),
    79: ("the GPU has fallen off the bus", Fault.GPU),
    92: ("many memory errors that ECC corrected", Fault.GPU),
    94: ("memory error that was contained within one program", Fault.GPU),
    95: ("memory error that was not contained", Fault.GPU),
    119: ("the GPU's system processor does not answer", Fault.GPU),
    120: ("the GPU's system processor failed", Fault.GPU),
    140: ("memory error that could not be corrected", Fault.GPU),
}
"""After NVIDIA's catalogue of Xid errors, in our words; those that a machine with Triton kernels may meet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """One event."""

    uuid: str
    """Of the GPU; of its parent where it came from a MIG slice."""
    code: int

    @property
    def fault(self) -> Fault:
        """Where to look first."""
        return MEANINGS.get(self.code, ("", Fault.EITHER))[1]

    def __str__(self) -> str:
        meaning, _ = MEANINGS.get(self.code, ("see NVIDIA's catalogue of Xid errors", Fault.EITHER))
        return f"{self.uuid} reported Xid {self.code}: {meaning}"
