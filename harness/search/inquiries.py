"""Looks into findings of wrong compiled code: the first wrong value, and the pass of Triton's compiler.

The worker does it, in a run of the finding's case.  It compiles variants of the kernel, so this is done once for each
finding, and not while it is shrunk.
"""

from dataclasses import replace

from harness.model.finding import Finding
from harness.model.miscompilation import InquiryRequest, Miscompilation
from harness.model.paired_run import PairedRun, PairedRunRequest
from harness.model.verdict import Signature
from harness.oracles.agreement import GpuAgreement
from harness.oracles.compiled_code import CompiledCode
from harness.oracles.endings import describe
from harness.search.runner import Runner
from harness.workers.supervision.time_limits import Patience

TIME_SHARE = 0.5
"""The share of a case's time limit after which an inquiry begins nothing new: the case itself takes time, too."""


def looked_into(finding: Finding, runner: Runner, time_limit_s: float, *, blames_passes: bool = False) -> Finding:
    """Return the finding with what an inquiry says of it, if it is one of wrong compiled code.

    Its source line is then that of the first wrong value.

    Args:
        finding: a failure that its case shows alone.
        runner: runs cases with the engine that compares TTIR and PTX.
        time_limit_s: the time limit of the runner's cases.
        blames_passes: also compile the kernel without each pass of the compiler.
    """
    limit_s = TIME_SHARE * time_limit_s
    asked = _inquiry(finding.fail.signature, limit_s, blames_passes=blames_passes)
    if asked is None:
        return finding
    before = (finding.preceding_case,) if finding.preceding_case else ()
    request = PairedRunRequest(case=finding.case, dot_precisions=(), inquiry=asked)
    run = runner.run_alone(request, before, patience=Patience.LONG)
    if isinstance(run, PairedRun) and run.miscompilation is not None:
        first = run.miscompilation.first
        source = finding.fail.source if first is None or first.source is None else first.source
        return replace(finding, fail=replace(finding.fail, source=source), miscompilation=run.miscompilation)
    reason = describe(run.ending)
    unknown = Miscompilation(first_unknown=reason, passes_unknown=reason if blames_passes else "")
    return replace(finding, miscompilation=unknown)


def _inquiry(signature: Signature, limit_s: float, *, blames_passes: bool) -> InquiryRequest | None:
    """Return what to ask about a failure; None if there is nothing to find."""
    match signature.oracle:
        case GpuAgreement.name:
            return InquiryRequest(
                kernel=signature.kernel, argument=signature.place, blames_passes=blames_passes, limit_s=limit_s
            )
        case CompiledCode.name if blames_passes:
            flaw = signature.place.rpartition(": ")[2]
            return InquiryRequest(kernel=signature.kernel, flaw=flaw, blames_passes=True, limit_s=limit_s)
        case _:
            return None
