"""The unmutated library beside a mutant: which failures are the mutant's own, and whether other code was launched."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from harness.model.case import Case
from harness.model.op import Op
from harness.model.paired_run import PairedRunRequest, RunRequest, case_of
from harness.model.run import Run
from harness.model.verdict import Fail, Signature
from harness.search.judge import Examination, Judge
from harness.search.runner import Runner

REMEMBERED = 2000
"""So many runs of the original are kept: mutants of one line's neighbourhood are tried with the same cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """Runs cases on the unmutated library, and remembers what came of them."""

    runner: Runner
    runs: dict[tuple[type[RunRequest], str], Run] = field(default_factory=dict["tuple[type[RunRequest], str]", Run])
    """By what was wanted, and the digest of its case."""

    def run(self, wanted: RunRequest) -> Run:
        """Run it, or remember what came of it."""
        key = type(wanted), case_of(wanted).digest
        if key not in self.runs:
            if len(self.runs) >= REMEMBERED:
                del self.runs[next(iter(self.runs))]
            self.runs[key] = self.runner.run(wanted)
        return self.runs[key]

    def shows(self, judge: Judge, op: Op, case: Case, signature: Signature) -> bool:
        """Whether the unmutated library fails in the same way in this case."""
        examined = judge.only(signature.oracle).examine(op, case, self.run)
        return examined.fail_with(signature) is not None

    def launches_alike(self, run: Run) -> bool:
        """Whether the same code was launched on the same grids: TTIR without locations, options and architecture."""
        return _launched(run) == _launched(self.run(run.case))

    def results_alike(self, run: Run) -> bool:
        """Whether the results are the same, bit for bit."""
        return _computed(run) == _computed(self.run(run.case))


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantJudge(Judge):
    """A judge who is silent about what the unmutated library shows in the same case, too."""

    original: Original
    seen: dict[str, Run] = field(default_factory=dict[str, Run])
    """What was judged, by the digest of its case."""

    def companions(self, op: Op, run: Run) -> tuple[PairedRunRequest, ...]:
        """None where the run fails by itself: a killed mutant needs no second reason."""
        return () if Judge.judge(self, op, run, {}).fails else Judge.companions(self, op, run)

    def judge(self, op: Op, run: Run, companions: Mapping[str, Run]) -> Examination:
        """What each oracle says, less the failures that the original shares and that come before the first of its own.

        What comes after that one is not compared: a mutant is killed once.
        """
        self.seen[run.case.digest] = run
        examined = Judge.judge(self, op, run, companions)
        plain = Judge(oracles=self.oracles, resources=self.resources)
        shared = set(
            takewhile(
                lambda signature: self.original.shows(plain, op, run.case, signature),
                (fail.signature for fail in examined.fails),
            )
        )
        kept = tuple(
            verdict for verdict in examined.verdicts if not (isinstance(verdict, Fail) and verdict.signature in shared)
        )
        return replace(examined, verdicts=kept)


def _launched(run: Run) -> tuple[tuple[str, str, tuple[int, int, int]], ...]:
    return tuple((launch.kernel, launch.build, launch.grid) for launch in run.launches)


def _computed(run: Run) -> tuple[tuple[str, str], ...]:
    return tuple((result.name, result.digest) for result in run.results)
