"""The last lines of a campaign: what was run, what was judged, and what could not be."""

from collections.abc import Iterator

from harness.findings.campaign_report import Report
from harness.model.verdict import Severity

REASONS = 5


def summary(report: Report) -> Iterator[str]:
    """The lines; the last says what it all comes to."""
    if report.reasons:
        yield f"{report.abstained} of {report.cases} cases could not be judged:"
        reasons = sorted(report.reasons.items(), key=lambda item: (-item[1], item[0]))
        yield from (f"  {count:>5}  {reason}" for reason, count in reasons[:REASONS])
        if len(reasons) > REASONS:
            yield f"         and {len(reasons) - REASONS} more reasons"
    if report.compiled < report.builds:
        yield (
            f"resources judged for {report.compiled} of {report.builds} compiled kernels: "
            "the whole compiler pipeline runs beside the search, and was not done with the others"
        )
    yield from (f"accepted {count:>5}  {what}" for what, count in report.accepted.items())
    if report.waiting is not None:
        yield f"the GPUs waited for the compiler {report.waiting:.0%} of the time"
    rate = report.cases / report.seconds if report.seconds else 0.0
    on = ", ".join(report.devices)
    stopped = "interrupted after" if report.interrupted else "ran"
    yield (
        f"{stopped} {report.cases} cases on {on} in {report.seconds:.0f} s ({rate:.1f}/s, seed {report.seed}): "
        f"{report.passed} passed, {report.failed} failed, {report.abstained} abstained"
    )
    yield from (f"known issue: {notice}" for notice in report.notices)
    yield conclusion(report)


def conclusion(report: Report) -> str:
    """One line."""
    if report.findings:
        errors = sum(finding.fail.signature.severity is Severity.ERROR for finding in report.findings)
        known = f"; {len(report.known)} of them known" if report.known else ""
        return f"{told(errors, len(report.findings) - errors)}{known}"
    if not report.judged:
        return "nothing could be judged: this says nothing about the kernels"
    return "no findings"


def told(errors: int, warnings: int) -> str:
    """How many findings there are: `3 findings: 2 errors, 1 warning`."""
    counts = [
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((errors, "error"), (warnings, "warning"))
        if count
    ]
    found = errors + warnings
    return f"{found} finding{'' if found == 1 else 's'}: {', '.join(counts)}" if found else "no findings"
