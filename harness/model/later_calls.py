"""What a case gives when it is computed later in the same process: after other calls, or from a CUDA graph."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.model.ending import Ending, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterCall:
    """The same call once more, with equal inputs in other memory, after another call."""

    between: str
    """The call between both: `a call with T=96`."""
    ending: Ending
    digests: Mapping[str, str]
    """The digest of each result's bytes, by name."""
    projections: Mapping[str, tuple[float, ...]]
    """As `Result.sketch`, by name."""


class ChangedInputs(StrEnum):
    """The inputs that have other values at a replay than at the capture."""

    NONE = "none"
    NUMBERS = "numbers"
    """Those of floating-point numbers."""
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreedMemory:
    """Memory that a captured graph uses, and that the program has freed since the capture."""

    kernel: str
    """The kernel that uses it first, or an operator of torch."""
    argument: str
    """Empty for an operator."""
    bytes: int
    between: str
    """The call that freed it: `a call with T=96`; empty if that is not known."""
    taker: str = ""
    """The operator that allocates no more than as much afterwards, in the same call; empty if none does."""
    taken_bytes: int = 0
    source: Source | None = None
    """The line that does so."""
    captured_at: Source | None = None
    """The line from which a watched program captured the first use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphReplay:
    """Replays of one captured call, beside calls without a graph."""

    ending: Ending
    """How capture, replays and calls ended."""
    host_read: str = ""
    """The operator by which host code of the call reads a tensor, for which a capture does not wait."""
    source: Source | None = None
    """The line that does so."""
    differing: Mapping[ChangedInputs, tuple[str, ...]] = field(default_factory=dict[ChangedInputs, tuple[str, ...]])
    """The outputs with other bits than a call without a graph, by the inputs that were changed before."""
    reordered: tuple[str, ...] = ()
    """The outputs with other bits if the streams of the capture run in another order that their events allow."""
    beside: tuple[str, ...] = ()
    """The outputs with other bits while another call runs on a second stream, if the op says that it may."""
    freed: tuple[FreedMemory, ...] = ()
    """What another call without a graph frees afterwards."""
