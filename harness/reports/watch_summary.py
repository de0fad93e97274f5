"""The summary of `harness run`: what was launched and checked, and what was not."""

from collections.abc import Iterator, Mapping

from harness.documents.campaign import CampaignReport
from harness.reports.summary import build_lines, checks, conclusion
from harness.wording import counted

REASONS = 5
NOT_WATCHED = "no launch was seen: this says nothing about the kernels"


def watch_summary(report: CampaignReport, launches: int, command: str, status: int) -> Iterator[str]:
    """Yield the lines; the last is the conclusion."""
    yield from _by_reason("launch", "could not be checked", report.abstain_reasons)
    yield from _by_reason("program", "of torch.compile ran uncompiled", report.uncompiled)
    yield from (line for line in checks(report.verdicts, ()))
    yield from build_lines(report)
    stopped = "interrupted after" if report.interrupted else "watched"
    yield (
        f"{stopped} {counted(launches, 'launch')} of {counted(len(report.kernels), 'kernel')} in "
        f"{counted(report.cases, 'test')} on {', '.join(report.devices)} in {report.seconds:.0f} s: "
        f"{report.passed} passed, {report.failed} failed, {report.abstained} abstained"
    )
    if status:
        yield f"{command} ended with status {status}"
    yield from (f"known issue: {notice}" for notice in report.notices)
    yield conclusion(report) if launches else NOT_WATCHED


def _by_reason(noun: str, happened: str, counts: Mapping[str, int]) -> Iterator[str]:
    reasons = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if reasons:
        yield f"{counted(sum(counts.values()), noun)} {happened}:"
        yield from (f"  {count:>5}  {reason}" for reason, count in reasons[:REASONS])
    if len(reasons) > REASONS:
        rest = sum(count for _, count in reasons[REASONS:])
        yield f"  {rest:>5}  for {counted(len(reasons) - REASONS, 'more reason')}"
