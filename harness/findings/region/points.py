"""Check one point of a region: run its case, and let the finding's oracle judge whether the failure shows.

Owns the decision between fail, pass and abstain, and collects the kernel's constants and tile sizes from the runs.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness.findings.region.rules import Vocabulary
from harness.model.case import Case
from harness.model.op import Op
from harness.model.paired_run import RunRequest, case_of
from harness.model.run import Launch, Run
from harness.model.verdict import Abstain, Outcome, Pass, Signature
from harness.oracles import registry
from harness.oracles.traits import Need
from harness.search.judge import Examination, Judge
from harness.search.runner import NoResources

LARGEST_NUMBER = 4096
"""Larger constants are sizes of the problem, not of the kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointResult:
    """The result of checking one case for the failure."""

    outcome: Outcome
    reason: str
    """The reason of an ABSTAIN; empty otherwise."""
    run: Run


class PointChecker:
    """Checks cases for one failure, and remembers the names of the kernel's constants."""

    def __init__(self, op: Op, signature: Signature, judge: Judge, execute: Callable[[RunRequest], Run]) -> None:
        self._op = op
        self._signature = signature
        self._execute = execute
        needs_resources = Need.RESOURCES in registry.traits_of(signature.oracle).needs
        self._judge = judge.only(signature.oracle)
        if not needs_resources:  # do not run the whole compiler pipeline for nothing
            self._judge = replace(self._judge, resources=NoResources())
        self._waits_for_compiler = needs_resources
        self._first: Case | None = None
        self._tiles = set[int]()
        self._other_tiles = set[int]()
        self._constants: defaultdict[str, set[int]] = defaultdict(set)
        self.compared_sm_counts: tuple[int, ...] | None = None
        """The other SM counts that the first case was compared with; None before it was checked."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Tile sizes, and the constants that were equal in all runs of the kernel at fault with the first config."""
        labels: dict[int, list[str]] = {}
        for name, values in self._constants.items():
            for value in values if len(values) == 1 else ():
                if 1 < value <= LARGEST_NUMBER:
                    labels.setdefault(value, []).append(name)
        named = {value: " = ".join(sorted(names)) for value, names in labels.items()}
        return Vocabulary(tiles=frozenset(self._tiles), other_tiles=frozenset(self._other_tiles), labels=named)

    def check(self, case: Case) -> PointResult:
        """Run the case and its paired runs, and judge."""
        compared: list[int] = []

        def execute(request: RunRequest) -> Run:
            sm_count = case_of(request).device.sm_count
            if sm_count != case.device.sm_count:
                compared.append(sm_count)
            return self._execute(request)

        examined = self._judge.examine(self._op, case, execute)
        is_open = examined.outcome is Outcome.ABSTAIN or self._judge.lacks_config_builds(examined.run)
        if self._waits_for_compiler and is_open:
            examined = self._judge.judge_when_compiled(self._op, examined.run, self._execute)
        outcome, reason = self._outcome(examined, tuple(compared))
        if self._first is None:
            self._first = case
        if case.configs == self._first.configs:
            self._note(examined.run)
        return PointResult(outcome=outcome, reason=reason, run=examined.run)

    def _at_fault(self, run: Run) -> Sequence[Launch]:
        """Return the launches of the kernel that the signature names, or all if it names none."""
        kernel = self._signature.kernel
        return [launch for launch in run.launches if not kernel or launch.kernel == kernel]

    def _outcome(self, examined: Examination, compared: tuple[int, ...]) -> tuple[Outcome, str]:
        if self.compared_sm_counts is None:
            self.compared_sm_counts = compared
        if compared != self.compared_sm_counts:
            return (
                Outcome.ABSTAIN,
                f"compared with {_sms(compared)}, the smallest case with {_sms(self.compared_sm_counts)}",
            )
        if examined.fail_with(self._signature) is not None:
            return Outcome.FAIL, ""
        if examined.fails:
            return Outcome.ABSTAIN, f"another failure: {examined.fails[0].message}"
        if any(isinstance(verdict, Abstain) for verdict in examined.verdicts):
            return Outcome.ABSTAIN, "; ".join(registry.reasons(examined.verdicts))
        passed = any(isinstance(verdict, Pass) for verdict in examined.verdicts)
        return (Outcome.PASS, "") if passed else (Outcome.ABSTAIN, "the op does not make this promise")

    def _note(self, run: Run) -> None:
        tiles = self._tiles if run.case == self._first else self._other_tiles
        for launch in self._at_fault(run):
            tiles.update(size for size in launch.tile_sizes if size <= LARGEST_NUMBER)
            for name, value in launch.constants.items():
                if isinstance(value, int) and not isinstance(value, bool):
                    self._constants[name].add(value)


def _sms(counts: tuple[int, ...]) -> str:
    return f"{', '.join(map(str, counts))} SM{'' if counts == (1,) else 's'}" if counts else "no other SM count"
