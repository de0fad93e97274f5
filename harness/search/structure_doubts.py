"""Whether the library or the suite is wrong, if results have another structure than their definition's.

One run cannot tell.  The library is wrong if another case of the op has results of the right structure.  Until then
such cases are held back.  If none comes, the suite is wrong, and one message says so.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from harness.model.case import Scale
from harness.model.run import Completed, Run
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.result_structure import ResultStructure, sentence
from harness.search.campaign_statistics import Trial
from harness.search.judge import Examination

WRONG_SUITE = "no case of the op has results of the structure that its definition returns: the suite is wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCase:
    """A case that does not count yet."""

    trial: Trial
    examined: Examination

    @property
    def fail(self) -> Fail:
        """The failure in doubt."""
        return next(fail for fail in self.examined.fails if fail.oracle == ResultStructure.name)

    @property
    def other_fails(self) -> tuple[Fail, ...]:
        return tuple(fail for fail in self.examined.fails if fail.oracle != ResultStructure.name)

    @property
    def not_checked(self) -> Examination:
        """The same case if the suite is wrong: it proves nothing but its other failures."""
        return replace(self.examined, verdicts=tuple(map(_as_unchecked, self.examined.verdicts)))


@dataclass(slots=True, kw_only=True)
class StructureDoubts:
    """The cases of one campaign that are held back, by op."""

    _held: defaultdict[str, list[HeldCase]] = field(default_factory=lambda: defaultdict[str, list[HeldCase]](list))
    _agreeing: set[str] = field(default_factory=set[str])
    """Ops with a case whose results have the right structure."""

    def hold(self, trial: Trial, examined: Examination) -> HeldCase | None:
        """Hold the case back if its failure is in doubt, and return it; return None if the case counts."""
        is_wrong = any(fail.oracle == ResultStructure.name for fail in examined.fails)
        if not is_wrong or trial.op.id in self._agreeing:
            return None
        held = HeldCase(trial=trial, examined=examined)
        self._held[trial.op.id].append(held)
        return held

    def released_by(self, trial: Trial, run: Run) -> list[HeldCase]:
        """Return the cases that count from now on, because this run has results of the right structure."""
        if not _agrees(run):
            return []
        self._agreeing.add(trial.op.id)
        return self._held.pop(trial.op.id, [])

    def wrong_suites(self) -> Iterator[tuple[str, list[HeldCase]]]:
        """Yield a message for each op without an agreeing case, and its cases; they are not held any more."""
        for op in sorted(self._held):
            cases = self._held.pop(op)
            first = min(cases, key=lambda held: held.trial.order_key)
            yield _message(first, len(cases)), cases


def _agrees(run: Run) -> bool:
    is_whole = isinstance(run.ending, Completed) and run.case.scale is Scale.USUAL
    return is_whole and bool(run.results) and not run.mismatches


def _message(first: HeldCase, cases: int) -> str:
    op, sentences = first.trial.op, "; ".join(map(sentence, first.examined.run.mismatches))
    counted = "the only case" if cases == 1 else f"each of {cases} cases"
    return (
        f"{op.suite}: op {op.name!r} and its reference return different structures in {counted}: {sentences} "
        f"({first.trial.case}): make the reference return what the op returns"
    )


def _as_unchecked(verdict: Verdict) -> Verdict:
    is_wrong = isinstance(verdict, Fail) and verdict.oracle == ResultStructure.name
    return Abstain(oracle=verdict.oracle, reason=WRONG_SUITE) if is_wrong or isinstance(verdict, Pass) else verdict
