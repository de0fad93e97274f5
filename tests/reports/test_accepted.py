"""Reports of compute-sanitizer that a file accepts are counted and shown, and fail nothing."""

from dataclasses import replace

from harness.model.compute_sanitizer_report import Level, Sanitized, SanitizerRecord, Tool, Touch
from harness.reports.summary import summary
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.judge import Examination
from tests.reports.samples import REPORT
from tests.search.fakes import SIMPLEST, facts, never

PADDING = SanitizerRecord(
    kind="Initcheck",
    text="Uninitialized __global__ memory read of size 4 bytes",
    what="uninitialized global memory read",
    level=Level.ERROR,
    at=Touch(direction="", kernel="at::native::fill"),
    count=64,
    accepted="torch pads",
)


def test_accepted_reports_of_all_cases_are_one_line_with_their_reason() -> None:
    statistics = CampaignStatistics()
    for record in (PADDING, replace(PADDING, count=6), replace(PADDING, accepted="")):
        watched = Sanitized(tool=Tool.INITCHECK, version="1", records=(record,))
        statistics.count(Examination(run=replace(facts(SIMPLEST, never), sanitizer=watched), verdicts=()))
    assert dict(statistics.accepted) == {"initcheck: at::native::fill: torch pads": 70}
    lines = [*summary(replace(REPORT, accepted_reports=statistics.accepted))]
    assert "accepted    70  initcheck: at::native::fill: torch pads" in lines
