"""The rules by which a run shows a recorded failure, or is evidence that the failure is gone."""

import re
from dataclasses import replace

from harness.model.run import Completed
from harness.model.verdict import Abstain, Outcome, Pass, Severity, Signature
from harness.oracles import registry
from harness.oracles.completes import Completes
from harness.search.judge import Examination

WITHIN_FILE = re.compile(r"(?<=\.py):.*$")


def is_same_bug(first: Signature, second: Signature) -> bool:
    """Return True if two failures are the same bug in two releases.

    Statements change, and the severity does too: a race may or may not show in the values.  Documents of earlier
    releases name an op with the folder of its suite.
    """
    return registry.is_shown_by(_normalised(first), _normalised(second))


def _normalised(signature: Signature) -> Signature:
    place = WITHIN_FILE.sub("", signature.place)
    return replace(signature, severity=Severity.ERROR, op=signature.op.rpartition("/")[2], place=place)


def is_gone(signature: Signature | None, examined: Examination) -> bool:
    """Return True if a run that does not show the failure is evidence against it.

    It is if the oracle passes, or if the oracle fails otherwise and the kernel at fault ran too.  If that kernel did
    not run, the other failure may be the same bug in a renamed kernel.  A case without a signature has to pass.
    """
    if signature is None:
        return examined.outcome is Outcome.PASS
    oracles = registry.related(signature.oracle)
    judging = [
        verdict for verdict in examined.verdicts if verdict.oracle in oracles and not isinstance(verdict, Abstain)
    ]
    if judging and all(isinstance(verdict, Pass) for verdict in judging):
        return True
    if not any(fail.oracle in oracles for fail in examined.fails):
        return False
    launched = {launch.kernel for launch in examined.run.launches}
    return isinstance(examined.run.ending, Completed) and (not signature.kernel or signature.kernel in launched)


def obstacle(signature: Signature | None, examined: Examination) -> str:
    """Explain why the run is no evidence: its ending, another failure of the same oracle, or why that abstained."""
    oracles = registry.related(signature.oracle) if signature is not None else frozenset[str]()
    abstained = [verdict for verdict in examined.verdicts if isinstance(verdict, Abstain)]
    reasons = [
        *(fail.message for fail in examined.fails if fail.oracle == Completes.name),
        *(f"instead: {fail.signature}" for fail in examined.fails if fail.oracle in oracles),
        *(verdict.reason for verdict in abstained if verdict.oracle in oracles),
        *(verdict.reason for verdict in abstained),
    ]
    return reasons[0] if reasons else "no oracle gave a verdict"
