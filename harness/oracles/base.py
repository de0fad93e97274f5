"""The shape that all oracles share.

An oracle holds one promise that a correct kernel keeps.  It is pure: it judges facts and makes no runs.  What it wants
run besides the case itself, it asks for as companions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from harness.model.case import Case
from harness.model.kernel_resources import Resources
from harness.model.run import Run
from harness.model.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything an oracle may look at."""

    run: Run
    companions: tuple[Run, ...] = ()
    """The runs of what `Oracle.companions` asked for, in that order."""
    resources: Mapping[str, Resources] = field(default_factory=dict[str, Resources])
    """By `Launch.build`, as far as the whole compiler pipeline has run."""


class Alone:
    """An oracle that needs no run besides the case itself."""

    def companions(self, run: Run) -> tuple[Case, ...]:
        """None, whatever the run."""
        del run
        return ()


class Oracle(Protocol):
    """One promise."""

    @property
    def name(self) -> str:
        """In findings, options and reports: `write-overlap`."""
        ...

    @property
    def promise(self) -> str:
        """One sentence: what a correct kernel does."""
        ...

    def companions(self, run: Run) -> tuple[Case, ...]:
        """Further cases whose runs are needed to judge this one, usually none; itself, as plainer code."""
        ...

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """At least one verdict; several failures where the run shows several distinct bugs."""
        ...
