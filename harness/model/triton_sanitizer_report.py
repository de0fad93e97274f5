"""What Triton's own sanitizers said of a case: checks that its compiler adds to kernels, and what shows that it did.

Owns the facts of one run of instrumented kernels, which `harness.cuda` reads and the oracle `triton-sanitizer` judges.
"""

from dataclasses import dataclass
from enum import StrEnum

from harness.model.compute_sanitizer_report import SanitizerRecord


class Instrumentation(StrEnum):
    """One of Triton's sanitizers; a process compiles every kernel with one of them."""

    GSAN = "gsan"
    CONSAN = "consan"
    FPSAN = "fpsan"

    @property
    def promise(self) -> str:
        """What a kernel keeps that it is silent on."""
        match self:
            case Instrumentation.GSAN:
                return "something orders any two accesses of global memory by different programs, if one is a store"
            case Instrumentation.CONSAN:
                return "barriers and waits order the accesses of shared and tensor memory, the asynchronous ones too"
            case Instrumentation.FPSAN:
                return "another autotune config changes nothing but the order of operations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """A result that came out with other bits."""

    name: str
    writer: tuple[str, str]
    """The kernel that stored it last, and through which argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """A case computed in integers, with two configs of one kernel: equal bit for bit, or not the same computation."""

    kernel: str
    configs: tuple[str, str]
    compared: tuple[str, ...]
    """Names of the results that kernels stored themselves."""
    differing: tuple[Differing, ...] = ()


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
    exact: Exact | None = None
    """Of FpSan, where two runs could be compared."""
    unproven: str = ""
    """Why it is not certain that each kernel was checked; empty where it is.

    It is certain where each kernel's code calls the sanitizer, and a mistake that another child of the same fork server
    made on purpose was reported.
    """

    @property
    def has_values(self) -> bool:
        """Whether the results are what the kernels compute without a sanitizer: FpSan's are integers of its own."""
        return self.mode is not Instrumentation.FPSAN

    @property
    def name(self) -> str:
        """What the records are told to be of."""
        return self.mode
