"""Replays of a search's findings at the base of a change: a finding that the base shows too is not new."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.changes.op_digests import TouchedOp
from harness.documents.gate_report import Standing
from harness.errors import ReplayError
from harness.findings.recorded_cases import Recorded, recorded_finding
from harness.findings.replays import ReplayAttempt, replay_each
from harness.findings.rerun import Replayed, ReplayStatus, options_for
from harness.gate.working_copies import WorkingCopy
from harness.model.finding import Finding
from harness.model.op import Op
from harness.model.verdict import Signature
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options
from harness.suite import load_suite

FLAKY_RUNS = 5
"""How often a finding that repeats only sometimes is replayed, until the base shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseAnswer:
    """What the base says of a finding."""

    standing: Standing
    """New, or at the base too."""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseReplays:
    """Replays at one base, by the options of the search."""

    base: WorkingCopy
    touched: Mapping[str, TouchedOp]
    """By the id of the op."""
    searched: Options

    def answers(self, findings: Sequence[Finding]) -> Iterator[BaseAnswer]:
        """Yield what the base says of each finding."""
        recorded = [replace(recorded_finding(finding), libraries=()) for finding in findings]
        for finding, attempt in zip(findings, replay_each(recorded, self._options), strict=True):
            signature = finding.fail.signature
            answer = answer_of(signature, attempt)
            if answer.note and answer.standing is Standing.NEW:  # the suite may have changed with its library
                (other,) = replay_each([attempt.recorded], self._options_of_base)
                second = answer_of(signature, other)
                answer = second if second.standing is Standing.AT_BASE or not second.note else answer
            again = FLAKY_RUNS - 1 if finding.repeats.is_flaky else 0
            while answer.standing is Standing.NEW and again > 0:
                again -= 1
                (repeated,) = replay_each([attempt.recorded], self._options)
                answer = answer_of(signature, repeated)
            yield answer

    def _options(self, recorded: Recorded) -> Options:
        """Return the options of a replay: with the base's libraries, and the working tree's suite.

        An op's kernel may be in the project itself, such as beside its suite: then the base's suite is taken.
        """
        change = self.touched.get(recorded.case.op)
        if change is not None and change.changes_own_kernels:
            return self._options_of_base(recorded)
        return options_for(
            recorded,
            libraries=self.base.libraries,
            engine=self.searched.engine,
            time_limit_s=self.searched.time_limit_s,
            sanitizer=self.searched.sanitizer,
            settings=self.searched.settings,
        )

    def _options_of_base(self, recorded: Recorded) -> Options:
        op = self._base_op(recorded)
        return replace(
            self.searched,
            ops=(op,),
            suites=(op.suite,),
            project=self.base.project,
            devices=(recorded.case.device,),
            libraries=self.base.libraries,
            budget=CaseBudget(cases=1),
            processes=1,
        )

    def _base_op(self, recorded: Recorded) -> Op:
        suite, _, name = recorded.case.op.rpartition(":")
        op = next((op for op in load_suite(suite, self.base.project) if op.name == name), None)
        if op is None or set(op.dims) != set(recorded.case.dims):
            raise ReplayError(f"its suite has no op {name} with such dims")
        return op


def answer_of(signature: Signature, attempt: ReplayAttempt) -> BaseAnswer:
    """Return what one replay says of a failure."""
    replayed = attempt.replayed
    if replayed is None:
        return BaseAnswer(standing=Standing.NEW, note=f"could not run there: {attempt.obstacle}")
    if replayed.status is ReplayStatus.SHOWN:
        return BaseAnswer(standing=Standing.AT_BASE)
    if moved := _moved(signature, replayed):
        return BaseAnswer(standing=Standing.AT_BASE, note=f"there as {moved}")
    if replayed.status is ReplayStatus.NOT_CHECKED:
        return BaseAnswer(standing=Standing.NEW, note=f"not checked there: {replayed}")
    return BaseAnswer(standing=Standing.NEW)


def _moved(signature: Signature, replayed: Replayed) -> Signature | None:
    """Return the same failure of a kernel that the change has moved to another file, or has given another name."""
    if not signature.kernel:
        return None
    launched = {launch.kernel for launch in replayed.examined.run.launches}
    others = (finding.fail.signature for finding in replayed.findings)
    alike = [other for other in others if other.oracle == signature.oracle and other.kernel]
    is_renamed = signature.kernel not in launched
    return next((other for other in alike if is_renamed or other.kernel == signature.kernel), None)
