"""Rerun of a recorded case in a fresh process, and whether its failure shows again."""

import shlex
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness.documents.campaign import counts
from harness.errors import ReplayError, UsageError
from harness.findings.recorded_cases import Recorded, is_recorded_launch
from harness.findings.same_bug import is_gone, is_same_bug, obstacle
from harness.libraries import of_project
from harness.model.engine_traits import EngineTraits
from harness.model.finding import Finding
from harness.model.op import Op
from harness.model.paired_run import RunRequest
from harness.model.plan import TIME_LIMIT_S
from harness.model.run import Completed, Run
from harness.model.verdict import Abstain, Severity, Signature
from harness.oracles import registry
from harness.oracles.base import SingleRunOracle
from harness.oracles.completes import Completes
from harness.search.campaign_plan import CaseBudget
from harness.search.judge import Examination
from harness.search.options import Options, SanitizerChoice
from harness.search.session import Session
from harness.settings import Settings
from harness.suite import load_suite
from harness.suite_files import folder_that_holds, project_of
from harness.wording import counted
from harness.workers.supervision.time_limits import Patience


class ReplayStatus(StrEnum):
    """What a rerun says of the recorded failure."""

    SHOWN = "shown"
    GONE = "gone"
    NOT_CHECKED = "not checked"
    """The run shows too little, for example because it ended early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The result of a rerun."""

    recorded: Recorded
    findings: tuple[Finding, ...]
    """Every failure that the case shows now."""
    examined: Examination
    """The run and the verdicts."""

    @property
    def same(self) -> tuple[Finding, ...]:
        """The recorded failure and its symptoms, as far as they show again, maybe at another line.

        For a bare case, every failure.
        """
        recorded = self.recorded
        if recorded.signature is None:
            return self.findings
        expected = (recorded.signature, *recorded.symptoms)
        return tuple(
            finding for finding in self.findings if any(is_same_bug(finding.fail.signature, bug) for bug in expected)
        )

    @property
    def other_findings(self) -> tuple[Finding, ...]:
        """The other failures of the case."""
        return tuple(finding for finding in self.findings if finding not in self.same)

    @property
    def status(self) -> "ReplayStatus":
        if self.same:
            return ReplayStatus.SHOWN
        return ReplayStatus.GONE if is_gone(self.recorded.signature, self.examined) else ReplayStatus.NOT_CHECKED

    def failures(self, fail_on: Severity) -> tuple[Finding, ...]:
        """Return the findings that fail a command or a test.

        They are the recorded failure and its symptoms, unless `fail_on` excuses them, and other errors.  Other warnings
        never count: they say nothing about the recorded failure.
        """
        return (
            *(finding for finding in self.same if counts(finding, fail_on)),
            *(finding for finding in self.other_findings if counts(finding, Severity.ERROR)),
        )

    def __str__(self) -> str:
        recorded = self.recorded
        match self.status:
            case ReplayStatus.SHOWN:
                return f"{recorded.id} fails again{self._elsewhere}{self._note_on_others}"
            case ReplayStatus.GONE if recorded.signature is None:
                return f"{recorded.id} is clean: {recorded.case}"
            case ReplayStatus.GONE:
                return f"{recorded.id} is gone: {recorded.signature} does not show{self._note_on_others}"
            case ReplayStatus.NOT_CHECKED:
                reason = obstacle(recorded.signature, self.examined)
                return f"{recorded.id} could not be checked: {reason}{self._note_on_others}"

    @property
    def _elsewhere(self) -> str:
        expected = self.recorded.signature
        seen = [finding.fail.signature for finding in self.same]
        return "" if expected is None or expected in seen else f" as {seen[0]} (recorded: {expected})"

    @property
    def _note_on_others(self) -> str:
        count = len(self.other_findings)
        return f"; the case has {counted(count, 'other finding')}" if count else ""


def op_of(recorded: Recorded) -> Op:
    """Return the op of the case.

    Raises:
        SuiteError: its suite cannot be loaded.
        UsageError: its suite is nowhere, or declares no such op.
        ReplayError: the case has other dims than the op.
    """
    suite, _, name = recorded.case.op.rpartition(":")
    project = project_with_suite(recorded)
    sys.path += [folder for folder in import_paths(recorded, project) if folder not in sys.path]
    ops = {op.name: op for op in load_suite(suite, project)}
    if name not in ops:
        raise UsageError(
            f"{recorded.id} is of op {name!r}, and {suite} declares {', '.join(ops)}: take the suite that declared it"
        )
    op, dims = ops[name], recorded.case.dims
    if set(dims) != set(op.dims):
        wrong = [*(f"lacks {dim}" for dim in op.dims if dim not in dims)]
        wrong += [f"has {dim}, which is no dim of the op" for dim in dims if dim not in op.dims]
        raise ReplayError(f"{recorded.id}: case.dims {' and '.join(wrong)} ({recorded.case.op})")
    return op


def import_paths(recorded: Recorded, project: Path) -> tuple[str, ...]:
    """Return the folders from which the tests of the project import, as `sys.path` takes them."""
    return tuple(str((project / folder).resolve()) for folder in recorded.import_paths)


def project_with_suite(recorded: Recorded) -> Path:
    """Return the folder to which the name of the case's suite refers: this one, its project, or that of the file."""
    if recorded.watched is not None and not is_recorded_launch(recorded.case):
        command = shlex.join(recorded.watched.command)
        raise UsageError(f"{recorded.id} has no recorded launch: repeat its test by {command}")
    suite = recorded.case.op.rpartition(":")[0]
    folders = dict.fromkeys((Path.cwd(), project_of(Path.cwd()), Path(recorded.project)))
    folder = folder_that_holds(suite, folders)
    if folder is None:
        raise UsageError(
            f"there is no suite {suite} in {' or '.join(map(str, folders))}: run the command in the suite's project"
        )
    return folder


def options_for(  # noqa: PLR0913 - the options of several commands, by keyword
    recorded: Recorded,
    *,
    libraries: tuple[str, ...],
    engine: EngineTraits,
    time_limit_s: float = TIME_LIMIT_S,
    sanitizer: SanitizerChoice | None = None,
    settings: Settings = Settings(),
    shows_output: bool = False,
) -> Options:
    """Return the options to run one recorded case; `libraries` replace those on record, if there are any."""
    if recorded.signature is not None:
        _refuse_unknown_oracle(recorded, recorded.signature)
    op = op_of(recorded)
    project = project_with_suite(recorded)
    before = (recorded.preceding_case,) if recorded.preceding_case else ()
    return Options(
        suites=tuple(dict.fromkeys(case.op.rpartition(":")[0] for case in (recorded.case, *before))),
        ops=(op,),
        project=project,
        devices=(recorded.case.device,),
        budget=CaseBudget(cases=1),
        seed=recorded.case.seed,
        processes=1,
        fixed_sm_count=True,
        libraries=libraries or tuple(of_project(spec, project) for spec in recorded.libraries),
        import_paths=import_paths(recorded, project),
        time_limit_s=time_limit_s,
        engine=engine,
        sanitizer=sanitizer,
        settings=settings,
        shows_output=shows_output,
    )


def _refuse_unknown_oracle(recorded: Recorded, signature: Signature) -> None:
    """Raise for a failure that no oracle of this release judges: that it does not show would mean nothing."""
    try:
        registry.find(signature.oracle)
    except UsageError as error:
        raise ReplayError(f"{recorded.id}: {error}: take the release that found it, or correct the file") from None


def replay(recorded: Recorded, session: Session, op: Op | None = None) -> Replayed:
    """Run the case in the session, alone in a fresh process, and check it.

    A recorded failure is checked by its own oracle and by all that need no further run, a bare case by every oracle.
    `op` is the case's; by default the session has it.
    """
    op = op or next(op for op in session.options.ops if op.id == recorded.case.op)
    before = (recorded.preceding_case,) if recorded.preceding_case else ()
    signature = recorded.signature
    asked = [oracle.name for oracle in registry.ALL if signature is None or isinstance(oracle, SingleRunOracle)]
    judge = session.judge.only(*asked, *([signature.oracle] if signature else []))
    patience = Patience.LONG if signature is not None and _is_slow(signature) else Patience.USUAL

    def execute(request: RunRequest) -> Run:
        return session.pool.run_alone(request, before, patience=patience)

    examined = judge.examine(op, recorded.case, execute)
    if signature is not None and (
        _waits_for_the_compiler(signature.oracle, examined) or judge.lacks_config_builds(examined.run)
    ):
        examined = judge.judge_when_compiled(op, examined.run, execute)
    return Replayed(
        recorded=recorded,
        findings=tuple(
            Finding(
                fail=fail,
                case=recorded.case,
                launch=examined.launch_of(fail),
                first_case=recorded.case,
                sightings=1,
                confirmed=True,
                preceding_case=recorded.preceding_case,
                libraries=session.options.libraries,
                engine_options=session.options.engine_options,
            )
            for fail in examined.fails
        ),
        examined=examined,
    )


def _is_slow(signature: Signature) -> bool:
    """Return True for the warning that a case exceeds its time limit: it needs a longer limit to end at all."""
    return signature.oracle == Completes.name and signature.severity is Severity.WARNING


def _waits_for_the_compiler(oracle: str, examined: Examination) -> bool:
    """Return True if the oracle abstains on a completed run: it may lack results of the background compiler."""
    abstains = any(isinstance(verdict, Abstain) and verdict.oracle == oracle for verdict in examined.verdicts)
    return abstains and isinstance(examined.run.ending, Completed)
