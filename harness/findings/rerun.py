"""Running a recorded case again, in a fresh process, and saying whether it still shows what it showed."""

from dataclasses import dataclass

from harness.errors import UsageError
from harness.findings.replay import Recorded
from harness.model.finding import Finding
from harness.model.op import Op
from harness.model.run import Completed
from harness.model.verdict import Abstain, Outcome, Severity, Signature
from harness.oracles import registry
from harness.oracles.base import Alone
from harness.oracles.completes import Completes
from harness.search.judge import Examination
from harness.search.options import TIME_LIMIT_S, Options, Watching
from harness.search.plan import CaseBudget
from harness.search.session import Session
from harness.suite import load_suite
from harness.workers.supervision.time_limits import Patience


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What came of one recorded case."""

    recorded: Recorded
    findings: tuple[Finding, ...]
    """Every failure that the case shows now."""
    examined: Examination
    """The run and what each oracle that was asked says of it."""

    @property
    def outcome(self) -> Outcome:
        """What the verdicts come to."""
        return self.examined.outcome

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it could not be judged, where it could not."""
        return registry.reasons(self.examined.verdicts)

    @property
    def shows_it_again(self) -> bool:
        """Whether the failure on record is among the findings; any is, where none is on record."""
        expected = self.recorded.signature
        return any(expected is None or finding.fail.signature == expected for finding in self.findings)

    def __str__(self) -> str:
        match self.outcome:
            case Outcome.PASS:
                return f"{self.recorded.id} is clean: {self.recorded.case}"
            case Outcome.ABSTAIN:
                return f"{self.recorded.id} could not be judged: {'; '.join(self.reasons) or 'no oracle says anything'}"
            case Outcome.FAIL:
                same = "again" if self.shows_it_again else f"otherwise than recorded ({self.recorded.signature})"
                return f"{self.recorded.id} fails {same}"


def op_of(recorded: Recorded) -> Op:
    """The op that the case belongs to.

    Raises:
        SuiteError: its suite cannot be loaded.
        UsageError: its suite declares no such op.
    """
    suite, _, name = recorded.case.op.rpartition(":")
    ops = {op.name: op for op in load_suite(suite)}
    if name not in ops:
        raise UsageError(
            f"{suite} declares no op {name!r} (it has {', '.join(ops)}): the case is of another version of it"
        )
    return ops[name]


def options_for(
    recorded: Recorded,
    *,
    libraries: tuple[str, ...],
    engine: str,
    time_limit_s: float = TIME_LIMIT_S,
    sanitizing: Watching | None = None,
) -> Options:
    """What it takes to run one recorded case; `libraries` instead of those on record, if there are any."""
    op = op_of(recorded)
    return Options(
        suites=(op.suite,),
        ops=(op,),
        devices=(recorded.case.device,),
        budget=CaseBudget(cases=1),
        seed=recorded.case.seed,
        processes=1,
        fixed_sm_count=True,
        libraries=libraries or recorded.libraries,
        time_limit_s=time_limit_s,
        engine=engine,
        sanitizing=sanitizing,
    )


def replay(recorded: Recorded, session: Session) -> Replayed:
    """Run the case in the session, alone in a fresh process, and judge it.

    A case of a finding is judged by the finding's oracle and by all that need no further run; a bare case by every one.
    """
    (op,) = session.options.ops
    before = (recorded.needs,) if recorded.needs else ()
    signature = recorded.signature
    asked = [one.name for one in registry.ALL if signature is None or isinstance(one, Alone)]
    judge = session.judge.only(*asked, *([signature.oracle] if signature else []))
    patience = Patience.LONG if signature is not None and _is_slow(signature) else Patience.USUAL
    examined = judge.examine(
        op, recorded.case, lambda wanted: session.pool.run_alone(wanted, before, patience=patience)
    )
    if signature is not None and _waits_for_the_compiler(signature.oracle, examined):
        session.compiler.settle()
        examined = judge.judge(op, examined.run, {})
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
                needs=recorded.needs,
                libraries=session.options.libraries,
                where=session.options.where,
            )
            for fail in examined.fails
        ),
        examined=examined,
    )


def _is_slow(signature: Signature) -> bool:
    """Whether the finding is that a case takes more than its time limit: only with more time does that show again."""
    return signature.oracle == Completes.name and signature.severity is Severity.WARNING


def _waits_for_the_compiler(oracle: str, examined: Examination) -> bool:
    """Whether the oracle says nothing of a whole run: it may lack what the compiler is still about to say."""
    abstains = any(isinstance(verdict, Abstain) and verdict.oracle == oracle for verdict in examined.verdicts)
    return abstains and isinstance(examined.run.ending, Completed)
