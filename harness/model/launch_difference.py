"""How far the virtual GPU and a real one are apart after the same launch from the same bytes: one argument of it."""

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
    "tf32": 2.0**-10,
}
"""By type of a tensor or of a kernel's own rounding, the distance from 1 to the next larger number."""
FEW = 16.0
"""So many units of its coarsest rounding, at the tensor's largest element, two right results may be apart.

Both round every operation, in another order and with other library functions.
"""


class Plainer(StrEnum):
    """What the compiler leaves out in another build of a kernel; of a right one, it changes results by roundings."""

    UNOPTIMISED = "ptxas does not optimise"
    UNFUSED = "no product is fused into a sum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far one argument of one launch is from the virtual GPU's on the real one."""

    kernel: str
    argument: str
    dtype: str
    elements: int
    differing: int
    """Elements whose bits differ, NaNs counting as equal."""
    ulps: float
    """The largest distance in units in the last place of the larger of the two."""
    scaled: float
    """The largest distance over the largest magnitude in the tensor."""
    rounds: tuple[str, ...] = ()
    """To what below float32 the kernel rounds on the way, dots of tf32 among it: `bfloat16`, `float16`, `tf32`."""
    doubt: float | None = None
    """The largest distance over what random rounding on the virtual GPU says of its element; None where nobody asked.

    It is asked for floating-point results that are further apart than `few_roundings`, which cancellation may explain.
    """
    agrees_once: Plainer | None = None
    """The plainer build that is as the virtual GPU, where rounding explains nothing; None where there is none."""

    @property
    def is_floating(self) -> bool:
        """Whether the argument holds floating-point numbers; all others must be equal."""
        return self.dtype in EPSILONS

    @property
    def few_roundings(self) -> float:
        """The distance, over the largest magnitude, that needs no explanation."""
        coarsest = max((EPSILONS[one] for one in self.rounds), default=0.0)
        return FEW * max(EPSILONS[self.dtype], coarsest) if self.is_floating else 0.0

    @property
    def is_explained(self) -> bool:
        """Whether two right computations of this tensor may be so far apart."""
        if not self.differing or (self.is_floating and self.scaled <= self.few_roundings):
            return True
        return self.doubt is not None and self.doubt <= 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseAgreement:
    """What came of a case's launches when each was repeated on the real GPU."""

    gpu: str
    """Its name."""
    launches: int
    """Launches that were compared."""
    differences: tuple[Difference, ...] = ()
    """One for each tensor of each of them, in their order; most say that all is equal."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Kernel and reason of each launch that was not compared."""

    def skips_of(self, kernel: str | None) -> int:
        """How many launches of a kernel were not compared."""
        return sum(skipped == kernel for skipped, _ in self.skipped)
