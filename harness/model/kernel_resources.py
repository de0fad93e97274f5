"""The resources that a kernel takes of the GPU for which it is compiled."""

from dataclasses import dataclass, replace
from signal import Signals

CRASHES = frozenset({Signals.SIGSEGV, Signals.SIGABRT, Signals.SIGILL, Signals.SIGFPE, Signals.SIGBUS})
"""The signals that a faulty program raises itself.  Others come from outside, such as the OOM killer or the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources of one kernel on one architecture, from the whole compiler pipeline."""

    registers_per_thread: int
    spill_bytes: int
    """Local memory per thread, in bytes: spills and stack."""
    shared_bytes: int
    tensor_memory_columns: int
    scratch_bytes_per_program: int
    threads: int
    scratch_align: int = 128
    """Alignment of the scratch memory in bytes; 128 for descriptors."""
    failure: str = ""
    """The compiler's message if it rejected the kernel; the figures are 0 then."""
    unknown: str = ""
    """The reason why this machine could not compile the kernel, which may be fine; the figures are 0 then."""

    @classmethod
    def failed(cls, failure: str) -> "Resources":
        """Return the resources of a kernel that the compiler rejected."""
        return replace(_NOTHING, failure=failure)

    @classmethod
    def not_known(cls, why: str) -> "Resources":
        """Return the resources of a kernel that could not be compiled here."""
        return replace(_NOTHING, unknown=why)


_NOTHING = Resources(
    registers_per_thread=0,
    spill_bytes=0,
    shared_bytes=0,
    tensor_memory_columns=0,
    scratch_bytes_per_program=0,
    threads=0,
)
