"""The text of a bug for a tracker changes only when there is something to read."""

from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from harness.errors import StoreError
from harness.findings.known_issues import NO_ISSUES
from harness.model.finding import FirstSeen
from harness.night import night_memory
from harness.night.bug_history import history_of
from harness.reports.morning import MorningContents, morning_contents, read_stored
from harness.reports.night_issues import write_issues
from tests.reports import nights
from tests.reports.nights import NEW, NIGHTS, STEADY, chunk, keep, sighting, write_run
from tests.reports.samples import EVIL, STRAY, VALUES
from tests.search.fakes import with_dims


def contents_of(folder: Path) -> MorningContents:
    history = history_of(night_memory.read(folder))
    return morning_contents(history, NO_ISSUES, stored=read_stored(history))


def nights_section(folder: Path, identity: str) -> list[str]:
    text = (folder / "issues" / f"{identity}.md").read_text(encoding="utf-8")
    return text.partition("### Nights\n\n")[2].partition("\n\n")[0].splitlines()


def test_each_confirmed_bug_has_a_text_with_its_nights(morning: MorningContents, tmp_path: Path) -> None:
    written = write_issues(morning, tmp_path)
    assert {path.stem for path in written} == {bug.id for bug in morning.bugs} - {STRAY.id, nights.LOST.id}
    assert nights_section(tmp_path, STEADY.id) == [
        "- first seen in the night 2026-11-25",
        "- still there; seen in each night that looked for it",
        "- releases that showed it: fla-core 0.5.2, fla-core 0.6.0",
        "- devices: h200",
        "- searches: fla",
    ]
    assert nights_section(tmp_path, nights.GONE.id)[1:3] == [
        "- last seen in the night 2026-11-27",
        "- gone since the night 2026-11-28 with fla-core 0.6.0: its smallest case ran and did not show it",
    ]
    assert "- still there; seen in about 80 % of the nights that looked for it" in nights_section(
        tmp_path, nights.FLAKY.id
    )


def test_a_second_writing_changes_nothing(morning: MorningContents, tmp_path: Path) -> None:
    write_issues(morning, tmp_path)
    assert write_issues(morning, tmp_path) == ()


def test_a_night_that_only_sees_it_again_changes_no_text(tmp_path: Path) -> None:
    memory, page = tmp_path / "nights", tmp_path / "page"
    for night in NIGHTS[:2]:
        write_run(memory, night, chunk(STEADY), sighting(STEADY))
    keep(memory, [STEADY])
    assert len(write_issues(contents_of(memory), page)) == 1
    again = replace(
        STEADY,
        sightings=31,
        first_seen=FirstSeen(case_number=3, seconds=2.5),
        first_case=with_dims(T=460),
        rule="every case with G > 1: 31 of 31; none of 9 others",
        repeats=replace(STEADY.repeats, shown=7, runs=7),
        symptoms=tuple(replace(symptom, sightings=99, message=EVIL) for symptom in STEADY.symptoms),
    )
    keep(memory, [again])
    write_run(memory, NIGHTS[2], chunk(STEADY), sighting(again))
    write_run(memory, NIGHTS[3], chunk())
    assert write_issues(contents_of(memory), page) == ()


@pytest.mark.parametrize("change", ["release", "gone"])
def test_a_change_of_the_bug_changes_the_text(tmp_path: Path, change: str) -> None:
    memory, page = tmp_path / "nights", tmp_path / "page"
    write_run(memory, NIGHTS[0], chunk(), sighting(STEADY))
    keep(memory, [STEADY])
    write_issues(contents_of(memory), page)
    shown = (sighting(STEADY, NEW),) if change == "release" else ()
    write_run(memory, NIGHTS[1], chunk(STEADY, release=NEW), *shown)
    assert [path.stem for path in write_issues(contents_of(memory), page)] == [STEADY.id]


def test_no_text_of_a_finding_becomes_markup(morning: MorningContents, tmp_path: Path) -> None:
    for path in write_issues(morning, tmp_path):
        assert "<script" not in MarkdownIt().render(path.read_text(encoding="utf-8"))


def test_a_folder_that_cannot_be_written_is_named(morning: MorningContents, tmp_path: Path) -> None:
    (tmp_path / "issues").write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match="issues"):
        write_issues(morning, tmp_path)


def test_the_section_stands_after_what_was_seen(morning: MorningContents, tmp_path: Path) -> None:
    write_issues(morning, tmp_path)
    text = (tmp_path / "issues" / f"{VALUES.id}.md").read_text(encoding="utf-8")
    assert text.index("Broken promise") < text.index("### Nights") < text.index("### Where")
