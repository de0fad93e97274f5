"""The traits of an oracle: what other rooms know about it, declared in the oracle's own file.

No other file lists oracles by name.  A list of some of them follows from their traits.
"""

from dataclasses import dataclass
from enum import StrEnum

from harness.model.flaw_kind import FlawKind
from harness.model.paired_run import SecondRun


class PromiseScope(StrEnum):
    """How much of a case an oracle needs to see.  It decides whether `harness run` can ask the oracle."""

    LAUNCH = "launch"
    """One launch: `harness run` asks it of each."""
    REPLAY = "replay"
    """A call and its replays from a CUDA graph: `harness run` asks it of each replay on the virtual GPU."""
    BUILD = "build"
    """One build of a kernel: `harness run` asks it on the virtual GPU, once the compiler has finished the build."""
    SANITIZED_PROCESS = "sanitized process"
    """The records of a tool of compute-sanitizer: `harness run` asks it if the command runs under one."""
    CASE = "case"
    """A whole case, with its reference or with further runs: only suites have that."""


class Need(StrEnum):
    """What an oracle reads, beside the facts that every run has."""

    RESULTS = "results"
    """Results with the structure of the definition's."""
    COMPARABLE_RESULTS = "comparable results"
    """Results of another run that must not differ, in any element.  NaN-tainted results may differ."""
    RESOURCES = "resources of builds"
    """The resources of builds.  The whole compiler has to run, and may finish after the run was judged."""
    EXACT_RUN = "exact run"
    """An exact run of every case, also where results are near their reference.  Searches compute a share of them so."""


class Causality(StrEnum):
    """What a failure may explain, and what may explain it (`harness.search.causes`)."""

    KERNEL = "kernel"
    """What kernels do: failures explain each other, in the order of launches, and results."""
    RESULT = "result"
    """Results: failures explain each other, in the order of oracles."""
    ENDING = "ending"
    """How a case ends: explained by what may end a launch of the same kernel."""
    UNDEFINED_LANES = "undefined lanes"
    """The values of undefined lanes: explain what varies with them."""
    APART = "apart"
    """Explains nothing, and nothing explains it."""


class Proof(StrEnum):
    """What a reproducer of a failure shows, and whether it needs the harness for that."""

    CHECKED_ACCESSES = "checked accesses"
    """Events that only the harness records."""
    TRUTH = "truth"
    """Results beyond a tolerance from the truth, on any GPU."""
    COMPARED_RUNS = "compared runs"
    """Results that differ between runs beyond a tolerance; the harness makes the runs."""
    OTHER_ROWS = "other rows"
    """Rows with other bits in other company, on any GPU; the file makes both calls."""
    STRUCTURE = "structure"
    """The structure of results, on any GPU."""
    EXCEPTION = "exception"
    """An exception, a crash or a hang, on any GPU."""
    GPU_LIMIT = "limit of the GPU"
    """An exception on GPUs like the case's own.  A smaller kernel would not show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What other rooms know about an oracle."""

    rank: int
    """The place of the oracle among all.  Causes come before consequences."""
    flaw: FlawKind
    """The kind of flaw that `harness check` names.  For `Causality.ENDING` the ending decides."""
    causality: Causality = Causality.APART
    scope: PromiseScope = PromiseScope.CASE
    needs: frozenset[Need] = frozenset()
    second_run: SecondRun | None = None
    """What differs in the second run that it compares with, if it needs one."""
    family: str = ""
    """The oracle that judges the same where no exact run decides, and whose name stands for this one."""
    is_same_bug_as_family: bool = False
    """True if this oracle and that of the family, failing at one place, see the same bug."""
    judges_oversized: bool = False
    """True if it needs neither values nor every program of a launch."""
    judges_without_values: bool = False
    """True if it judges runs whose kernels compute with something else than values."""
    not_requested: frozenset[str] = frozenset()
    """Reasons to abstain that only say that an engine or a tool was not requested."""
    ends_launches: bool = False
    """True if what it judges may end a launch, and so explains how a case ends."""
    varies_with_undefined_lanes: bool = False
    """True if it compares runs that may hold other values in undefined lanes."""
    has_harmful_warnings: bool = False
    """True if its warnings may explain an error."""
    proof: Proof = Proof.CHECKED_ACCESSES
    more_than_launch: str = ""
    """Why a launch alone cannot show the failure; empty if it can."""


UNKNOWN = Traits(rank=1 << 31, flaw=FlawKind.PROMISE)
"""The traits of an oracle that this release does not have, as in a finding of another one."""
