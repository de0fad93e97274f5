"""Why compiled code of a kernel computes something else than its TTIR says: the first wrong value, and the pass."""

from dataclasses import dataclass

from harness.model.run import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class InquiryRequest:
    """A request to look into a launch whose PTX is wrong."""

    kernel: str
    argument: str = ""
    """The argument that differs from TTIR's; empty for a flaw of compiled code."""
    flaw: str = ""
    """The kind of the flaw; empty for an argument that differs."""
    blames_passes: bool = False
    """True to compile the kernel without each pass of Triton's compiler, too."""
    limit_s: float
    """No variant of the kernel begins later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstValue:
    """The first value of a kernel, in the order of execution, that its PTX computes differently than its TTIR."""

    value: str
    """As TTIR names it, with its operation: `%acc_9 = tt.dot`."""
    source: Source | None
    program: int
    """The linear id of the first program in which it differs."""
    iterations: tuple[int, ...] = ()
    """The iteration of each loop around it, from 0, the outermost first."""
    index: tuple[int, ...] = ()
    """The first element that differs; empty for a scalar."""
    differing: int
    elements: int
    expected: str
    """The element as TTIR computes it; `not computed` if it computes none there."""
    computed: str
    """The same for PTX."""
    hidden: int = 0
    """The number of earlier values that could not be looked at: exposing one hides the fault, or time was short."""

    def __str__(self) -> str:
        at = "" if self.source is None else f" at {self.source}"
        element = f"element {list(self.index)} is " if self.index else ""
        many = f" ({self.differing} of {self.elements} elements differ)" if self.elements > 1 else ""
        noun = "value" if self.hidden == 1 else "values"
        earlier = f"; {self.hidden} earlier {noun} could not be looked at" if self.hidden else ""
        return f"{self.value}{at}: {element}{self.computed}, by TTIR {self.expected}{many}{self._where}{earlier}"

    @property
    def _where(self) -> str:
        places = [f"program {self.program}"] if self.program else []
        places += [f"iteration {', '.join(map(str, self.iterations))}"] if self.iterations else []
        return f" in {', '.join(places)}" if places else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassBlame:
    """The passes of Triton's compiler without which the PTX is right."""

    gone_without: tuple[str, ...]
    """In the order of the pipeline: `ttgpuir.add_fuse_nested_loops`."""
    judged: int
    """The number of passes without which the kernel compiled and ran."""
    not_judged: tuple[str, ...] = ()
    """Without these it does not compile, or the PTX machine cannot execute it."""
    not_tried: tuple[str, ...] = ()
    """Those for which there was no time."""

    def __str__(self) -> str:
        late = f", no time for {len(self.not_tried)}" if self.not_tried else ""
        tried = f"{self.judged} passes were left out one at a time"
        tried += f", {len(self.not_judged)} cannot be" if self.not_judged else ""
        tried += late
        match self.gone_without:
            case ():
                fixed = f"; {', '.join(self.not_judged)} cannot be" if self.not_judged else ""
                return f"no single pass: wrong without any of the {self.judged} that can be left out{fixed}{late}"
            case (only,):
                return f"{only}: right without it ({tried})"
            case several:
                return f"one of {', '.join(several)}: right without any of them ({tried})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Miscompilation:
    """What an inquiry found out about a launch whose PTX is wrong."""

    first: FirstValue | None = None
    first_unknown: str = ""
    """Why the first value is not known; empty if it is, or if nothing differs in value."""
    passes: PassBlame | None = None
    """None unless passes were left out."""
    passes_unknown: str = ""
    """Why passes are not known, if they were asked for."""
