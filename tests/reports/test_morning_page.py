"""The morning's page: a folder of files that link to each other, load nothing and escape all text."""

from dataclasses import replace
from pathlib import Path
from posixpath import dirname, join, normpath

import pytest

from harness.errors import StoreError
from harness.findings.known_issues import NO_ISSUES
from harness.night.bug_history import history_of
from harness.night.night_memory import NightMemory
from harness.reports.html.morning_page import MOST_NIGHTS, morning_pages, write_morning_page
from harness.reports.morning import MorningContents, morning_contents
from tests.reports import nights
from tests.reports.nights import STEADY
from tests.reports.samples import EVIL, LINK, STRAY, VALUES
from tests.reports.test_page import Parsed

FOREIGN = {"data:,", LINK}


def said_in(parsed: Parsed) -> str:
    return " ".join(parsed.said.split())


def test_every_link_of_every_page_leads_to_a_file_and_anchor(morning: MorningContents, tmp_path: Path) -> None:
    write_morning_page(morning, tmp_path)
    pages = {str(path.relative_to(tmp_path)): path.read_text("utf-8") for path in tmp_path.rglob("*.html")}
    assert set(pages) == {"index.html", "history.html", *(f"bugs/{bug.id}.html" for bug in morning.bugs)}
    parsed = {name: Parsed(text) for name, text in pages.items()}
    for name, page in parsed.items():
        assert set(page.anchors) <= set(page.ids)
        assert len(set(page.ids)) == len(page.ids)
        assert page.tags["main"] == page.tags["h1"] == page.tags["header"] == page.tags["script"] == 1
        for address in set(page.addresses) - FOREIGN:
            file, _, anchor = address.partition("#")
            target = normpath(join(dirname(name), file))
            assert (tmp_path / target).is_file(), f"{name} names {address}"
            assert not anchor or anchor in parsed[target].ids, f"{name} names {address}"


def test_what_is_new_stands_before_all_else(morning: MorningContents) -> None:
    text = dict(morning_pages(morning))["index.html"]
    names = [
        "new",
        f"bug-{VALUES.id}",
        "back",
        f"bug-{nights.BACK.id}",
        "bugs",
        f"bug-{STEADY.id}",
        "night",
        "unchecked",
    ]
    places = [text.index(f'id="{name}"') for name in names]
    assert places == sorted(places)
    assert "<h1>Night 2026-11-28: 3 new, 1 back</h1>" in text


def test_the_first_page_names_all_that_went_wrong(morning: MorningContents) -> None:
    said = said_in(Parsed(dict(morning_pages(morning))["index.html"]))
    assert "1 run of 2 did not come to the end (machines). 1 chunk of the night failed" in said
    assert "1 part of the memory could not be read" in said
    assert "1/22026-11-28 02:00 UTC after 1.0 h" in said
    assert "2/22026-11-28 03:00 UTC killed" in said
    assert "GPU 3: row remapping failed" in said
    assert f"the process was killed: {EVIL}" in said
    assert "No night has checked a case of: layer_norm on a100 (fla)." in said
    assert f"8 {EVIL}: tt.histogram" in said
    assert "2026-11-25, 3 nights ago" in said
    assert "expires on 2026-12-03, in 5 days" in said
    assert "javascript:alert(1)" in said
    assert "layer_norm_fwd_kernelfla/modules/layernorm.py43-5, 9" in said
    assert "1 bug gone since earlier nights" in said


def test_the_page_of_a_bug_has_picture_source_case_and_commands(morning: MorningContents) -> None:
    text = dict(morning_pages(morning))[f"bugs/{STEADY.id}.html"]
    said = said_in(Parsed(text))
    folder = f"{morning.history.memory.folder}/findings/{STEADY.id}"
    assert "dx [450, 64]: stored by more than one program" in said
    assert "tl.store(p, x)" in said
    assert "layer_norm T=3 D=1 G=1 fp32, no residual or weight" in said
    for command in (f"harness replay {folder}", f"harness repro {folder}", f"harness report {folder} --issue"):
        assert command in said
    assert "Seen: 2026-11-25 to 2026-11-28, in 4 of 4 nights that looked for it." in said
    assert "2026-11-27seenflah200fla-core 0.5.25 of 5" in said
    assert "seen in 4, looked for in vain in 0, not looked for in 0" in said


def test_a_reproducer_of_the_store_is_on_the_page_of_its_bug(morning: MorningContents) -> None:
    assert "print('again')" in Parsed(dict(morning_pages(morning))[f"bugs/{VALUES.id}.html"]).said


def test_a_bug_without_its_case_says_what_is_lost(morning: MorningContents) -> None:
    said = said_in(Parsed(dict(morning_pages(morning))[f"bugs/{nights.LOST.id}.html"]))
    assert nights.LOST.fail.message in said
    assert "The memory has lost its smallest case" in said


def test_a_bug_that_is_gone_says_since_when(morning: MorningContents) -> None:
    pages = dict(morning_pages(morning))
    gone = "Gone since 2026-11-28 with fla-core 0.6.0; seen from 2026-11-25 to 2026-11-27."
    assert gone in said_in(Parsed(pages[f"bugs/{nights.GONE.id}.html"]))
    assert nights.GONE_BEFORE.id in Parsed(pages["history.html"]).said
    assert nights.GONE_BEFORE.id not in Parsed(pages["index.html"]).said


def test_the_first_page_has_the_latest_nights_and_another_has_all(morning: MorningContents) -> None:
    years = tuple(replace(morning.history.nights[0], night=f"2020-{number:03}") for number in range(MOST_NIGHTS + 1))
    contents = replace(morning, history=replace(morning.history, nights=(*years, morning.history.nights[-1])))
    pages = dict(morning_pages(contents))
    assert ("2020-000" in pages["index.html"], "2020-002" in pages["index.html"]) == (False, True)
    assert "2020-000" in pages["history.html"]


def test_a_second_writing_keeps_pages_of_bugs_that_are_lost(morning: MorningContents, tmp_path: Path) -> None:
    write_morning_page(morning, tmp_path)
    write_morning_page(replace(morning, bugs=()), tmp_path)
    assert (tmp_path / "bugs" / f"{STRAY.id}.html").is_file()


def test_a_page_without_nights_says_so(tmp_path: Path) -> None:
    contents = morning_contents(history_of(NightMemory(folder=tmp_path)), NO_ISSUES)
    for text in dict(morning_pages(contents)).values():
        Parsed(text)
    said = said_in(Parsed(dict(morning_pages(contents))["index.html"]))
    assert "No night has run yet" in said
    assert "Nothing new." in said


def test_a_folder_that_cannot_hold_the_page_is_named(morning: MorningContents, tmp_path: Path) -> None:
    (tmp_path / "bugs").write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match="bugs"):
        write_morning_page(morning, tmp_path)


def test_very_many_new_bugs_are_in_the_table_alone(morning: MorningContents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.reports.html.morning_page.MOST_CARDS", 1)
    parsed = Parsed(dict(morning_pages(morning))["index.html"])
    assert parsed.tags["article"] == 2
    assert "2 more in the table" in said_in(parsed)
    assert {f"bug-{bug.id}" for bug in morning.bugs if bug.group != "gone before"} <= set(parsed.ids)
