"""One point of a region: a case is run, and the oracle of the finding says whether it shows the finding's failure.

Owns what counts as failing, passing and neither, and what the runs tell of the kernel's numbers.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness.model.case import Case
from harness.model.op import Op
from harness.model.paired_run import RunRequest, case_of
from harness.model.run import Launch, Run
from harness.model.verdict import Abstain, Outcome, Pass, Signature
from harness.oracles import registry
from harness.oracles.resources import Fits
from harness.region.rules import Vocabulary
from harness.search.judge import Examination, Judge
from harness.search.runner import NoResources

LARGEST_NUMBER = 4096
"""Constants above are sizes of the problem rather than of the kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointResult:
    """What a case showed of one failure."""

    outcome: Outcome
    reason: str
    """Why it abstained."""
    run: Run


class Looker:
    """Looks at cases for one failure; remembers what the kernel's numbers are called."""

    def __init__(self, op: Op, signature: Signature, judge: Judge, execute: Callable[[RunRequest], Run]) -> None:
        self._op = op
        self._signature = signature
        self._execute = execute
        needs_resources = signature.oracle == Fits.name
        self._judge = judge.only(signature.oracle)
        if not needs_resources:  # else the whole compiler pipeline would run beside, for nothing
            self._judge = replace(self._judge, resources=NoResources())
        self._settles = needs_resources
        self._first: Case | None = None
        self._tiles = set[int]()
        self._tiles_elsewhere = set[int]()
        self._constants: defaultdict[str, set[int]] = defaultdict(set)
        self.compared_with: tuple[int, ...] | None = None
        """The other SM counts that the first case was compared with; None before it was looked at."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The tile sizes, and the constants that were the same in every run of the kernel at fault with its config."""
        labels: dict[int, list[str]] = {}
        for name, values in self._constants.items():
            for value in values if len(values) == 1 else ():
                if 1 < value <= LARGEST_NUMBER:
                    labels.setdefault(value, []).append(name)
        named = {value: " = ".join(sorted(names)) for value, names in labels.items()}
        return Vocabulary(tiles=frozenset(self._tiles), tiles_elsewhere=frozenset(self._tiles_elsewhere), labels=named)

    def look(self, case: Case) -> PointResult:
        """Run the case and what the oracle wants beside it, and judge."""
        beside: list[int] = []

        def execute(wanted: RunRequest) -> Run:
            sm_count = case_of(wanted).device.sm_count
            if sm_count != case.device.sm_count:
                beside.append(sm_count)
            return self._execute(wanted)

        examined = self._judge.examine(self._op, case, execute)
        if self._settles and examined.outcome is Outcome.ABSTAIN:
            self._judge.resources.settle()
            examined = self._judge.judge(self._op, examined.run, {})
        outcome, reason = self._outcome(examined, tuple(beside))
        if self._first is None:
            self._first = case
        if case.configs == self._first.configs:
            self._note(examined.run)
        return PointResult(outcome=outcome, reason=reason, run=examined.run)

    def at_fault(self, run: Run) -> Sequence[Launch]:
        """The launches of the kernel that the signature names, or all where it names none."""
        kernel = self._signature.kernel
        return [launch for launch in run.launches if not kernel or launch.kernel == kernel]

    def _outcome(self, examined: Examination, beside: tuple[int, ...]) -> tuple[Outcome, str]:
        if self.compared_with is None:
            self.compared_with = beside
        if beside != self.compared_with:
            return Outcome.ABSTAIN, f"compared with {_sms(beside)}, the smallest case with {_sms(self.compared_with)}"
        if examined.fail_with(self._signature) is not None:
            return Outcome.FAIL, ""
        if examined.fails:
            return Outcome.ABSTAIN, f"another failure: {examined.fails[0].message}"
        if any(isinstance(verdict, Abstain) for verdict in examined.verdicts):
            return Outcome.ABSTAIN, "; ".join(registry.reasons(examined.verdicts))
        passed = any(isinstance(verdict, Pass) for verdict in examined.verdicts)
        return (Outcome.PASS, "") if passed else (Outcome.ABSTAIN, "the op does not make this promise")

    def _note(self, run: Run) -> None:
        tiles = self._tiles if run.case == self._first else self._tiles_elsewhere
        for launch in self.at_fault(run):
            tiles.update(size for size in launch.tile_sizes if size <= LARGEST_NUMBER)
            for name, value in launch.constants.items():
                if isinstance(value, int) and not isinstance(value, bool):
                    self._constants[name].add(value)


def _sms(counts: tuple[int, ...]) -> str:
    return f"{', '.join(map(str, counts))} SM{'' if counts == (1,) else 's'}" if counts else "no other SM count"
