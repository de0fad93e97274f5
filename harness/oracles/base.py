"""The interface of all oracles.

An oracle checks one promise that a correct kernel keeps.  It is pure: it judges the facts of runs, and runs nothing
itself.  If it needs more than the case's own run, it requests paired runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from harness.model.case import Case
from harness.model.kernel_resources import Resources
from harness.model.run import Run
from harness.model.verdict import Severity, Signature, Verdict
from harness.oracles.traits import Traits


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that an oracle may judge from."""

    run: Run
    paired_runs: tuple[Run, ...] = ()
    """The runs of the cases that `Oracle.paired_runs` returned, in that order; all of them or none."""
    resources: Mapping[str, Resources] = field(default_factory=dict[str, Resources])
    """The resources of each build, by `Launch.build`; only builds that the whole compiler pipeline has finished."""


class NamedOracle:
    """Names itself in the signatures of its failures."""

    name: str

    def signature(self, run: Run, *, kernel: str, place: str, severity: Severity = Severity.ERROR) -> Signature:
        """Return the identity of a failure of this run."""
        return Signature(oracle=self.name, severity=severity, op=run.case.op, kernel=kernel, place=place)


class SingleRunOracle(NamedOracle):
    """An oracle that judges from the case's own run alone."""

    def paired_runs(self, run: Run) -> tuple[Case, ...]:
        del run
        return ()


class Oracle(Protocol):
    """Checks one promise."""

    @property
    def name(self) -> str:
        """The name in findings, options and reports, for example `write-overlap`."""
        ...

    @property
    def promise(self) -> str:
        """One sentence about a correct kernel."""
        ...

    @property
    def traits(self) -> Traits:
        """What other rooms know about the oracle."""
        ...

    def paired_runs(self, run: Run) -> tuple[Case, ...]:
        """Return the cases that must also run before this run can be judged; usually none.

        The case itself among them requests a rerun of unoptimised code on the hardware GPU.
        """
        ...

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Return at least one verdict; several failures if the run shows several distinct bugs."""
        ...
