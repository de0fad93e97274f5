"""What a kernel takes of the GPU that it is compiled for."""

from dataclasses import dataclass, replace
from signal import Signals

CRASHES = frozenset({Signals.SIGSEGV, Signals.SIGABRT, Signals.SIGILL, Signals.SIGFPE, Signals.SIGBUS})
"""The signals that a program which goes wrong raises itself; the others somebody sends: the OOM killer, or the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the whole compiler pipeline says one kernel takes on one architecture."""

    registers_per_thread: int
    spill_bytes: int
    """Local memory a thread, spills and stack."""
    shared_bytes: int
    tensor_memory_columns: int
    scratch_bytes_per_program: int
    threads: int
    failure: str = ""
    """What the compiler said, where it gave up; the figures are 0 then."""
    unknown: str = ""
    """What on this machine kept the compiler from saying anything of the kernel; the figures are 0 then."""

    @classmethod
    def failed(cls, failure: str) -> "Resources":
        """Where the compiler gave up."""
        return replace(_NOTHING, failure=failure)

    @classmethod
    def not_known(cls, why: str) -> "Resources":
        """Where the compiler did not get so far as to say anything of the kernel."""
        return replace(_NOTHING, unknown=why)


_NOTHING = Resources(
    registers_per_thread=0,
    spill_bytes=0,
    shared_bytes=0,
    tensor_memory_columns=0,
    scratch_bytes_per_program=0,
    threads=0,
)
