"""The original library next to a mutant: which failures are the mutant's own, and whether its code differs."""

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

MAX_REMEMBERED_RUNS = 2000
"""How many runs of the original are kept: mutants of neighbouring lines are tried with the same cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """Runs cases on the original library, and caches the runs."""

    runner: Runner
    runs: dict[tuple[type[RunRequest], str], Run] = field(default_factory=dict["tuple[type[RunRequest], str]", Run])
    """By kind of request and the digest of its case, the oldest first."""

    def run(self, request: RunRequest) -> Run:
        """Return the cached run, or run the request."""
        key = type(request), case_of(request).digest
        if key not in self.runs:
            if len(self.runs) >= MAX_REMEMBERED_RUNS:
                del self.runs[next(iter(self.runs))]
            self.runs[key] = self.runner.run(request)
        return self.runs[key]

    def shows(self, judge: Judge, op: Op, case: Case, signature: Signature) -> bool:
        """Return True if the original library fails in the same way in this case."""
        examined = judge.only(signature.oracle).examine(op, case, self.run)
        return examined.fail_with(signature) is not None

    def has_same_launches(self, run: Run) -> bool:
        """Return True if the same builds were launched on the same grids.

        TTIR without locations, compiler options and architecture identify a build.
        """
        return _launched(run) == _launched(self.run(run.case))

    def has_same_results(self, run: Run) -> bool:
        """Return True if the results are the same, bit for bit."""
        return _computed(run) == _computed(self.run(run.case))


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantJudge(Judge):
    """A judge that drops failures which the original library shows in the same case."""

    original: Original
    seen: dict[str, Run] = field(default_factory=dict[str, Run])
    """The judged runs, by the digest of their case."""

    def paired_runs(self, op: Op, run: Run) -> tuple[PairedRunRequest, ...]:
        """Request no paired runs if the run fails by itself: a killed mutant needs no second reason."""
        return () if Judge.judge(self, op, run, {}).fails else Judge.paired_runs(self, op, run)

    def judge(self, op: Op, run: Run, paired_runs: Mapping[str, Run]) -> Examination:
        """Return the verdicts without the failures that the original shares.

        Only failures before the mutant's first own one are compared with the original: one is enough to kill it.
        """
        self.seen[run.case.digest] = run
        examined = Judge.judge(self, op, run, paired_runs)
        unfiltered = Judge(oracles=self.oracles, resources=self.resources)
        shared = set(
            takewhile(
                lambda signature: self.original.shows(unfiltered, op, run.case, signature),
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
