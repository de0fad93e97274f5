"""The report of Triton's own sanitizers on a case: failed checks, and the proof that the compiler added the checks.

`harness.engines.cuda` collects these facts, and the oracle `triton-sanitizer` judges them.
"""

from dataclasses import dataclass
from enum import StrEnum

from harness.model.compute_sanitizer_report import SanitizerRecord


class Instrumentation(StrEnum):
    """A sanitizer of Triton; a process compiles every kernel with one of them."""

    GSAN = "gsan"
    CONSAN = "consan"
    FPSAN = "fpsan"

    @property
    def promise(self) -> str:
        """The property of a kernel on which the sanitizer reports nothing."""
        match self:
            case Instrumentation.GSAN:
                return "something orders any two accesses of global memory by different programs, if one is a store"
            case Instrumentation.CONSAN:
                return "barriers and waits order the accesses of shared and tensor memory, the asynchronous ones too"
            case Instrumentation.FPSAN:
                return "another autotune config changes nothing but the order of operations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """A result whose bits differ between two runs."""

    name: str
    writer: tuple[str, str]
    """The kernel that stored it last, and the argument through which it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """A case computed in integers by FpSan, with two configs of one kernel.

    Results that differ in any bit come from different computations, since integer sums do not depend on their order.
    """

    kernel: str
    configs: tuple[str, str]
    compared: tuple[str, ...]
    """Names of the results that kernels stored, and that were therefore compared."""
    differing: tuple[Differing, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrumented:
    """The report on a case whose kernels were compiled with checks."""

    mode: Instrumentation
    version: str
    """The version of Triton: `3.9.0`."""
    records: tuple[SanitizerRecord, ...] = ()
    """All records, including accepted ones.  The first check that fails ends the CUDA context, and so the case."""
    launches: int = 0
    asserts: tuple[str, ...] = ()
    """Texts of the device assertions in the kernels' own sources, to distinguish them from the sanitizer's."""
    exact: Exact | None = None
    """The comparison of FpSan's two runs; None if there is none."""
    unproven: str = ""
    """Why it is not certain that each kernel was checked; empty if it is.

    It is certain on two conditions.  Each kernel's code calls the sanitizer, and the sanitizer reported a planted
    mistake of another child of the same fork server.
    """

    @property
    def has_values(self) -> bool:
        """False for FpSan, whose results are integers instead of the kernels' values."""
        return self.mode is not Instrumentation.FPSAN

    @property
    def name(self) -> str:
        """The name of the sanitizer in reports."""
        return self.mode
