"""A machine of a fleet runs a chunk in a process, and passes on what that tells."""

import subprocess  # noqa: TC003 - pyright reads it
from dataclasses import replace
from pathlib import Path

import pytest

from harness.documents import files
from harness.documents.chunk import Chunk, ShardReport
from harness.fleet.chunk_process import ChunkFailed, ChunkOrder, run_chunk
from harness.fleet.event_stream import CaseCount, EventStream, event_in
from harness.model.finding import Finding
from harness.model.plan import Plan
from tests.cli.command_line import ENGINE, ROOT
from tests.cli.fake_engine import suite_of
from tests.reports.samples import OVERLAP

CHUNK = Chunk(
    search="0123abcd",
    number=2,
    count=3,
    search_seed=1,
    plan=Plan(
        suites=("suites/norm.py",),
        op=("overlapping",),
        device="b200",
        cases=8,
        triage_seconds=60.0,
        seed=1,
        engine=ENGINE[1],
    ),
)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "norm.py").write_text(suite_of("overlapping", "faultless"), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)


def test_events_are_read_back() -> None:
    lines: list[str] = []
    stream = EventStream(lines.append)
    stream.progress(CaseCount(cases=3, failures=1))
    stream.progress(CaseCount(cases=4, failures=1))
    stream.found(OVERLAP)
    count, finding = map(event_in, lines)
    assert count == CaseCount(cases=3, failures=1)
    assert isinstance(finding, Finding)
    assert (finding.id, finding.fail.message) == (OVERLAP.id, OVERLAP.fail.message)


@pytest.mark.parametrize("line", ["", "{}", "words", '{"event": "finding", "finding": {}}', '{"event": "progress"}'])
def test_a_line_that_is_no_event_is_none(line: str) -> None:
    assert event_in(line) is None


def test_a_chunk_tells_its_findings_and_returns_its_report() -> None:
    lines: list[str] = []
    text = run_chunk(ChunkOrder(chunk=files.dumps(CHUNK), options=("--processes", "1")), Path.cwd(), lines.append)
    (one,) = files.loads(text, ShardReport).chunks
    assert (one.chunk, one.report.cases, len(one.report.findings)) == (CHUNK, 8, 1)
    told = [event for event in map(event_in, lines) if isinstance(event, Finding)]
    assert {finding.fail.signature for finding in told} == {one.report.findings[0].fail.signature}
    assert told[-1].confirmed


def test_a_chunk_that_is_ended_reports_what_it_has() -> None:
    plan = replace(CHUNK.plan, op=("faultless",), cases=50_000)
    processes: list[subprocess.Popen[str]] = []

    def hear(line: str) -> None:
        event = event_in(line)
        if isinstance(event, CaseCount) and event.cases:
            processes[0].terminate()

    order = ChunkOrder(chunk=files.dumps(replace(CHUNK, plan=plan)), options=("--processes", "1"))
    (one,) = files.loads(run_chunk(order, Path.cwd(), hear, processes.append), ShardReport).chunks
    assert one.report.interrupted
    assert one.report.cases > 0


def test_a_chunk_that_cannot_run_says_why() -> None:
    unknown = ChunkOrder(chunk=files.dumps(CHUNK).replace('"overlapping"', '"missing"'))
    with pytest.raises(ChunkFailed, match="ended with status 2: harness: unknown op 'missing'"):
        run_chunk(unknown, Path.cwd(), print)


def test_another_release_of_the_harness_is_refused() -> None:
    with pytest.raises(ChunkFailed, match=r"is installed here, and 0\.0\.1 divided the search"):
        run_chunk(ChunkOrder(chunk="", harness="0.0.1"), Path.cwd(), print)
