"""Which release is right: the run of a case judged by its op's definition, in exact arithmetic too."""

from dataclasses import dataclass
from enum import StrEnum

from harness.documents.upgrade_report import Right
from harness.model.op import Op
from harness.model.run import Completed, Run
from harness.model.verdict import Fail, Pass, Severity
from harness.oracles import registry
from harness.oracles.endings import describe
from harness.oracles.float64_values import Float64Values


class Agreement(StrEnum):
    """Whether a run agrees with the definition of its op."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    agreement: Agreement
    why: str = ""


UNKNOWN = Judgement(agreement=Agreement.UNKNOWN)


def judged(run: Run, op: Op) -> Judgement:
    """Judge the values of a run.  What no oracle decides is unknown."""
    if not isinstance(run.ending, Completed):
        return Judgement(agreement=Agreement.UNKNOWN, why=describe(run.ending))
    oracles = tuple(map(registry.find, sorted(registry.family(Float64Values.name))))
    verdicts = registry.judge_all(run, {}, {}, op.waives, oracles)
    if fails := [
        verdict for verdict in verdicts if isinstance(verdict, Fail) and verdict.signature.severity is Severity.ERROR
    ]:
        return Judgement(agreement=Agreement.WRONG, why=fails[0].message)
    if any(isinstance(verdict, Pass) for verdict in verdicts):
        return Judgement(agreement=Agreement.RIGHT)
    return UNKNOWN


def right_of(old: Judgement, new: Judgement) -> tuple[Right, str]:
    """Return which release is right, and what a wrong one has."""
    match old.agreement, new.agreement:
        case Agreement.WRONG, Agreement.RIGHT:
            return Right.NEW, old.why
        case Agreement.RIGHT, Agreement.WRONG:
            return Right.OLD, new.why
        case Agreement.RIGHT, Agreement.RIGHT:
            return Right.BOTH, ""
        case Agreement.WRONG, Agreement.WRONG:
            return Right.NEITHER, new.why
        case _:
            return Right.UNKNOWN, old.why or new.why
