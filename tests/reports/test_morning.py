"""The morning's report: groups, verdict, terminal, Markdown, JSON."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt

from harness.documents import files
from harness.findings.known_issues import NO_ISSUES, KnownIssues
from harness.night import night_memory
from harness.night.bug_history import history_of
from harness.night.night_memory import FINDINGS
from harness.reports.morning import (
    GONE_BEFORE,
    BugPlace,
    MorningContents,
    UnexecutedLines,
    morning_contents,
    read_stored,
)
from harness.reports.morning_document import MorningDocument, morning_document
from harness.reports.morning_markdown import morning_markdown
from harness.reports.morning_text import morning_text
from harness.reports.night_work import AbstainReason, FailedChunks, UntriedUnit
from tests.reports import nights
from tests.reports.nights import ISSUES, NEW, OLD, STEADY, UNITS, chunk, sighting, write_run
from tests.reports.samples import EVIL, LINK, STRAY, VALUES
from tests.search.fakes import OP

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "schemas"
VERDICT = (
    "night 2026-11-28: 3 new, 1 back; 1 still there (1 known), 1 flaky, 1 not looked for, 1 gone (1 known); "
    "1 of 2 runs did not come to the end"
)
TEXT = f"""\
{VERDICT}
2026-11-28: 96 cases in 1.5 h (0.018/s), 44 checked, 4 failed, 6 bugs, 1 run killed

new (3)
  ERROR  agreement  layer_norm  d:x  {nights.LOST.id}
    d:x[1, 2, 4] is nan
    fla · layer_norm · h200 · fla-core 0.6.0
"""


def contents_of(folder: Path, issues: KnownIssues = NO_ISSUES) -> MorningContents:
    return morning_contents(history_of(night_memory.read(folder)), issues)


def test_each_bug_is_in_the_group_of_its_state(morning: MorningContents) -> None:
    grouped = {group.name: [bug.id for bug in group.bugs] for group in morning.groups}
    assert {name: set(ids) for name, ids in grouped.items()} == {
        "new": {VALUES.id, STRAY.id, nights.LOST.id},
        "back": {nights.BACK.id},
        "still there": {STEADY.id},
        "flaky": {nights.FLAKY.id},
        "gone": {nights.GONE.id},
        "not looked for": {nights.ELSEWHERE.id},
        GONE_BEFORE: {nights.GONE_BEFORE.id},
    }
    assert list(grouped) == ["new", "back", "still there", "flaky", "gone", "not looked for", GONE_BEFORE]


def test_the_verdict_counts_each_state_and_killed_runs(morning: MorningContents) -> None:
    assert morning.verdict == VERDICT


def test_a_night_that_checked_nothing_is_no_good_news(tmp_path: Path) -> None:
    write_run(tmp_path, nights.NIGHTS[0], chunk(passed=0, failed=0, abstained=48))
    assert "nothing could be checked: this says nothing about the kernels" in contents_of(tmp_path).verdict


def test_without_nights_the_report_says_so(tmp_path: Path) -> None:
    contents = contents_of(tmp_path)
    assert list(morning_text(contents)) == ["no night has run yet"]
    assert morning_markdown(contents).startswith("### no night has run yet\n")
    assert morning_document(contents).bugs == ()


def test_places_name_the_release_of_the_latest_sighting(tmp_path: Path) -> None:
    write_run(tmp_path, nights.NIGHTS[0], chunk(), sighting(STEADY), sighting(STEADY, device="b200"))
    write_run(tmp_path, nights.NIGHTS[1], chunk(release=NEW), sighting(STEADY, NEW))
    (bug,) = contents_of(tmp_path).bugs
    assert bug.places == (
        BugPlace(search="fla", op="layer_norm", device="b200", release=OLD),
        BugPlace(search="fla", op="layer_norm", device="h200", release=NEW),
    )


def test_what_the_night_did_not_check_or_try_is_named(morning: MorningContents) -> None:
    work = morning.work
    assert work.abstained == (AbstainReason(reason=f"{EVIL}: tt.histogram", cases=8, ops=(OP.id,)),)
    assert [(unit.op, unit.device) for unit in work.unchecked] == [(OP.id, "a100")]
    assert work.untried == (
        UntriedUnit(search="fla", op=OP.id, device="b200", last="", nights_ago=0),
        UntriedUnit(search="liger", op="suites/liger.py:rope", device="b200", last="", nights_ago=0),
        UntriedUnit(search="liger", op="suites/liger.py:swiglu", device="b200", last="2026-11-25", nights_ago=3),
    )
    reason = f"the process was killed: {EVIL}"
    assert work.failed == (FailedChunks(search="fla", op=OP.id, device="b200", reason=reason, count=1),)


def test_without_a_list_of_units_those_of_earlier_nights_count(morning: MorningContents) -> None:
    (unit,) = morning_contents(morning.history, NO_ISSUES).work.untried
    assert (unit.op, unit.last) == ("suites/liger.py:swiglu", "2026-11-25")


def test_known_issues_are_named_when_something_is_to_do(morning: MorningContents) -> None:
    assert [note.note for note in morning.issue_notes] == [
        "expires on 2026-12-03, in 5 days",
        "gone in each search; is it fixed?",
        "no night has seen it; is the entry still needed?",
    ]
    expired = replace(ISSUES, today=date(2026, 12, 3))
    assert morning_contents(morning.history, expired).issue_notes[0].note == "expired on 2026-12-03; it counts again"
    early = replace(ISSUES, issues=ISSUES.issues[:1], today=date(2026, 11, 18))
    assert morning_contents(morning.history, early).issue_notes == ()


def test_lines_never_executed_are_ranges() -> None:
    assert UnexecutedLines(file="a.py", kernel="k", lines=(9, 3, 5, 4)).ranges == "3-5, 9"
    assert UnexecutedLines(file="a.py", kernel="k", lines=()).ranges == ""


def test_the_terminal_begins_with_what_is_new(morning: MorningContents) -> None:
    text = "\n".join(morning_text(morning))
    assert text.startswith(TEXT)
    assert f"harness replay {morning.history.memory.folder}/findings/{VALUES.id}" in text
    assert f"(known: {LINK})" in text
    assert "GPU set aside: GPU 3: row remapping failed" in text
    assert "not tried: 3 units; never: layer_norm on b200, rope on b200; longest ago: swiglu on b200, 3 nights" in text
    assert "broken/finding.json: not readable as JSON" in text
    assert "never executed: 4 lines of 1 kernel" in text
    assert nights.GONE_BEFORE.id not in text


def test_the_markdown_begins_with_the_verdict_and_escapes_all(morning: MorningContents) -> None:
    text = morning_markdown(morning, "https://pages.example/nights")
    assert text.startswith(
        f"### {VERDICT}\n\n[All bugs and nights](https://pages.example/nights/index.html)\n\n**new (3)**"
    )
    assert f"| [{VALUES.id}](https://pages.example/nights/bugs/{VALUES.id}.html) | error | float64-values |" in text
    html = MarkdownIt("commonmark").enable("table").render(text)
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<table>") == html.count("</table>") == 7
    assert html.count("<details>") == html.count("</details>") == 5
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {9, 8}


def test_the_document_follows_its_schema_and_is_read_again(morning: MorningContents) -> None:
    document = morning_document(morning, "https://pages.example/nights/")
    text = files.dumps(document)
    schema = json.loads((SCHEMAS / "morning.schema.json").read_text(encoding="utf-8"))
    assert list(Draft202012Validator(schema).iter_errors(json.loads(text))) == []
    assert files.loads(text, MorningDocument) == document
    assert json.loads(text)["counts"] == {
        "new": 3,
        "back": 1,
        "still there": 1,
        "flaky": 1,
        "gone": 1,
        "not looked for": 1,
    }
    assert [bug.id for bug in document.bugs] == [bug.id for bug in morning.bugs if bug.group != GONE_BEFORE]
    first = document.bugs[0]
    assert first.page == f"https://pages.example/nights/bugs/{first.id}.html"
    assert {bug.page for bug in morning_document(morning).bugs} == {f"bugs/{bug.id}.html" for bug in document.bugs}


def test_the_store_adds_versions_reproducers_and_complaints(morning: MorningContents) -> None:
    place = morning.history.memory.folder / FINDINGS / VALUES.id
    (place / "region.json").write_text("{", encoding="utf-8")
    stored = read_stored(morning.history)
    bug = next(bug for bug in stored.bugs if bug.finding.id == VALUES.id)
    assert dict(bug.versions) == {"python": "3.11.7", "triton": "3.6.0"}
    assert [file.name for file in bug.files] == ["repro.py"]
    assert len(morning_contents(morning.history, NO_ISSUES, stored=stored).damaged) == len(morning.damaged) + 1 == 2


@pytest.mark.parametrize("units", [(), UNITS])
def test_a_memory_that_lost_its_logs_still_shows_its_bugs(
    morning: MorningContents, units: tuple[tuple[str, str, str], ...]
) -> None:
    memory = replace(morning.history.memory, runs=())
    contents = morning_contents(history_of(memory), ISSUES, units=units)
    assert {bug.group for bug in contents.bugs} == {"not looked for"}
    assert contents.verdict == "no night has run yet; 8 not looked for (2 known)"
    text = "\n".join(morning_text(contents))
    assert "the nights that saw it are lost" in text
