"""Xid events, which NVIDIA's kernel module reports when something goes wrong on a GPU, and their likely cause."""

from dataclasses import dataclass
from enum import StrEnum


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
class Xid:
    """One event."""

    uuid: str
    """The GPU; for a MIG slice its parent GPU."""
    code: int

    @property
    def fault(self) -> XidFault:
        return MEANINGS.get(self.code, ("", XidFault.EITHER))[1]

    def __str__(self) -> str:
        meaning, _ = MEANINGS.get(self.code, ("see NVIDIA's catalogue of Xid errors", XidFault.EITHER))
        return f"{self.uuid} reported Xid {self.code}: {meaning}"
