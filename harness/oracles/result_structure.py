"""The promise that results have the structure of their definition's: presence, shape and element type."""

from harness.model.flaw_kind import FlawKind
from harness.model.run import FormMismatch, Run
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import unfinished
from harness.oracles.traits import Causality, Proof, Traits

MEANING = (
    "The caller gets another result than the op's definition has: code that unpacks, adds or copies it fails, or goes "
    "on with a wrong shape or a wrong type."
)
NOT_COMPARED = "no result was compared"


class ResultStructure(SingleRunOracle):
    """Fails on results that are missing, superfluous, or of another shape or type than the definition's.

    A single run cannot tell a wrong library from a wrong definition.
    """

    name = "result-structure"
    promise = "The outputs and gradients are those of the definition, each with its shape and element type."
    traits = Traits(
        rank=220,
        flaw=FlawKind.WRONG_FORM,
        causality=Causality.RESULT,
        proof=Proof.STRUCTURE,
        more_than_launch="the host code decides which results the op returns",
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once: results of a wrong structure usually have one cause."""
        run = evidence.run
        if run.mismatches:
            return (self._fail(run, run.mismatches),)
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        return (Pass(oracle=self.name),) if run.results else (Abstain(oracle=self.name, reason=NOT_COMPARED),)

    def _fail(self, run: Run, mismatches: tuple[FormMismatch, ...]) -> Fail:
        first = mismatches[0]
        return Fail(
            signature=self.signature(run, kernel="", place=f"{first.name} {_difference(first)}"),
            message="; ".join(map(sentence, mismatches)),
            meaning=MEANING,
        )


ORACLES = (ResultStructure(),)


def sentence(mismatch: FormMismatch) -> str:
    """Return for example `y1 is missing where the definition gives float32 of shape (3, 4)`."""
    got = "missing" if mismatch.got is None else str(mismatch.got)
    if mismatch.expected is None:
        return f"{mismatch.name} is {got} where the definition gives nothing"
    return f"{mismatch.name} is {got} where the definition gives {mismatch.expected}"


def _difference(mismatch: FormMismatch) -> str:
    """Return what differs, in words that do not vary with the case."""
    match mismatch.got, mismatch.expected:
        case None, _:
            return "missing"
        case _, None:
            return "superfluous"
        case got, expected:
            is_shape = got.kind == expected.kind and got.shape != expected.shape
            return "shape" if is_shape else f"{got.kind} for {expected.kind}"
