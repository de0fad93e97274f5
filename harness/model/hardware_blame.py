"""Who is at fault for a failure on a hardware GPU, and the repeats that show it."""

from dataclasses import dataclass
from enum import StrEnum

from harness.model.verdict import Fail


class Blame(StrEnum):
    """The part at fault."""

    LIBRARY = "library"
    """The virtual GPU, which has no compiler behind TTIR, shows the failure too."""
    TRITON = "Triton"
    """Only hardware shows it, whatever assembles the kernels."""
    ASSEMBLER = "assembler"
    """Only hardware shows it, and not if the kernels are assembled in another way."""
    RACE = "race"
    """Hardware shows it in some runs of the case and not in others, or with other values each time."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareBlame:
    """The part at fault, with the evidence."""

    blame: Blame
    assembler: str = ""
    """The assembler at fault with its version and target: `ptxas 12.8.93 for sm_90a`."""
    kernels: tuple[str, ...] = ()
    """The kernels that it miscompiles."""
    mended_by: tuple[str, ...] = ()
    """The assemblers that make right code of them: `ptxas 12.9.86`, `ptxas 12.8.93 -O0`."""
    evidence: tuple[str, ...] = ()
    """The result of each repeat, as a clause: `the virtual GPU does not show it`."""
    exact: Fail | None = None
    """The same failure as exact arithmetic on the virtual GPU judges it; None if that does not decide."""

    @property
    def cause(self) -> str:
        """The miscompilation, equal for all failures that it causes; empty if there is none.

        It does not name kernels: one mistake of an assembler shows in many.
        """
        return f"{self.assembler} makes wrong code" if self.blame is Blame.ASSEMBLER else ""

    @property
    def verdict(self) -> str:
        """The part at fault, as a sentence without its full stop."""
        match self.blame:
            case Blame.LIBRARY:
                return "the library is at fault: the virtual GPU shows it too"
            case Blame.TRITON:
                return "Triton is at fault: only hardware shows it, whatever assembles the kernels"
            case Blame.ASSEMBLER:
                kernels = _listed(self.kernels) or "a kernel"
                return f"{self.assembler} miscompiles {kernels}: right with {_listed(self.mended_by)}"
            case Blame.RACE:
                return "a race is at fault: only hardware shows it, and it varies from run to run"
            case Blame.UNKNOWN:
                return "it is unknown who is at fault"


def _listed(names: tuple[str, ...]) -> str:
    *most, last = names or ("",)
    return f"{', '.join(most)} and {last}" if most else last
