"""The differences between the virtual GPU and a hardware GPU after the same launch from the same bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

EPSILONS: Mapping[str, float] = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
    "float8_e4m3fnuz": 2.0**-3,
    "float8_e5m2fnuz": 2.0**-2,
    "tf32": 2.0**-10,
}
"""The distance from 1 to the next larger number, by the type of a tensor or of a rounding inside a kernel."""
FEW = 16.0
"""Two right results may differ by this many units of the coarsest rounding, at the tensor's largest element.

Each rounds every operation, but they differ in the order of operations and in library functions.
"""


class Plainer(StrEnum):
    """The step that another build of a kernel leaves out.  Results of a right kernel change by roundings only."""

    UNOPTIMISED = "ptxas does not optimise"
    UNFUSED = "no product is fused into a sum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference of one argument of one launch between the virtual and the hardware GPU."""

    kernel: str
    argument: str
    dtype: str
    elements: int
    differing: int
    """The number of elements whose bits differ; NaNs count as equal."""
    ulps: float
    """The largest distance, in units in the last place of the larger value."""
    scaled: float
    """The largest distance divided by the largest magnitude in the tensor."""
    rounds: tuple[str, ...] = ()
    """Types coarser than float32 to which the kernel rounds intermediates: `bfloat16`, `float16`, `tf32`."""
    doubt: float | None = None
    """The largest ratio of a distance to the error that random rounding on the virtual GPU shows for its element.

    None unless it was measured.  It is measured for floating-point results that differ by more than `few_roundings`:
    cancellation may explain those.
    """
    agrees_once: Plainer | None = None
    """The plainer build that agrees with the virtual GPU, if rounding does not explain the difference."""

    @property
    def is_floating(self) -> bool:
        """True for floating-point numbers; arguments of other types must be equal."""
        return self.dtype in EPSILONS

    @property
    def few_roundings(self) -> float:
        """The distance, relative to the largest magnitude, that needs no explanation."""
        coarsest = max((EPSILONS[dtype] for dtype in self.rounds), default=0.0)
        return FEW * max(EPSILONS[self.dtype], coarsest) if self.is_floating else 0.0

    @property
    def is_explained(self) -> bool:
        """True if two right computations of this tensor may differ this much."""
        if not self.differing or (self.is_floating and self.scaled <= self.few_roundings):
            return True
        return self.doubt is not None and self.doubt <= 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseAgreement:
    """The comparison of a case's launches, each repeated on the hardware GPU."""

    gpu: str
    """The name of the hardware GPU."""
    launches: int
    """The number of launches that were compared."""
    differences: tuple[Difference, ...] = ()
    """One for each tensor of each launch, in launch order; most have no differing element."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Kernel and reason of each launch that was not compared."""

    @property
    def why_none(self) -> str:
        """Why no launch was compared, if none was; empty if the case made no launch."""
        return "" if self.launches else "; ".join(sorted({reason for _, reason in self.skipped}))

    def skips_of(self, kernel: str | None) -> int:
        """Return the number of launches of a kernel that were not compared."""
        return sum(skipped == kernel for skipped, _ in self.skipped)
