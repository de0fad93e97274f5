"""What Triton's own sanitizers said of a case: checks that its compiler adds to kernels, and what shows that it did.

Owns the facts of one run of instrumented kernels, which `harness.cuda` reads and the oracle `triton-sanitizer` judges.
"""

from dataclasses import dataclass
from enum import StrEnum

from harness.model.sanitizer import SanitizerRecord


class Instrumentation(StrEnum):
    """One of Triton's sanitizers; a process compiles every kernel with one of them."""

    GSAN = "gsan"
    CONSAN = "consan"

    @property
    def promise(self) -> str:
        """What a kernel keeps that it is silent on."""
        match self:
            case Instrumentation.GSAN:
                return "something orders any two accesses of global memory by different programs, if one is a store"
            case Instrumentation.CONSAN:
                return "barriers and waits order the accesses of shared and tensor memory, the asynchronous ones too"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrumented:
    """A case whose kernels were compiled with checks."""

    mode: Instrumentation
    version: str
    """Of Triton: `3.9.0`."""
    records: tuple[SanitizerRecord, ...] = ()
    """The accepted ones too.  The first check that fails ends the process's CUDA context, and the case."""
    launches: int = 0
    asserts: tuple[str, ...] = ()
    """Texts of the device assertions in the sources of the kernels, which are not the sanitizer's."""
    unproven: str = ""
    """Why it is not certain that each kernel was checked; empty where it is.

    It is certain where each kernel's code calls the sanitizer, and a mistake that another child of the same fork server
    made on purpose was reported.
    """

    @property
    def name(self) -> str:
        """What the records are told to be of."""
        return self.mode
