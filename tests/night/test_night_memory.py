"""The memory of nights: it survives cuts, repetition, several machines and years."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.model.case import Case
from harness.night import night_memory
from harness.night.bug_history import BugState
from tests.night.nights import CONFIRMED, OTHER_CASE, Nights, files_of


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(folder=tmp_path / "nights")


def test_a_folder_that_does_not_exist_remembers_nothing(tmp_path: Path) -> None:
    assert night_memory.read(tmp_path / "none").runs == ()


def test_a_log_that_is_cut_off_loses_its_last_line_at_most(nights: Nights) -> None:
    log = nights.run("1", sees=CONFIRMED)
    text = log.path.read_bytes()
    for length in range(0, len(text), 97):
        log.path.write_bytes(text[:length])
        memory = night_memory.read(nights.folder)
        assert sum(len(run.entries) for run in memory.runs) >= text[:length].count(b"\n")
        assert len(memory.damaged) <= 1
        assert nights.bug.id == CONFIRMED.id  # its own folder has it


def test_lines_after_a_cut_are_whole(nights: Nights) -> None:
    log = nights.run("1")
    log.path.write_bytes(log.path.read_bytes()[:-20])
    log.write(night_memory.RunEnded(seconds=9.0))
    memory = night_memory.read(nights.folder)
    assert memory.runs[0].ended == night_memory.RunEnded(seconds=9.0)
    assert "line 3" in memory.damaged[0]


def test_a_damaged_finding_is_named_and_its_sightings_stay(nights: Nights) -> None:
    nights.run("1", sees=CONFIRMED)
    document = nights.folder / "findings" / CONFIRMED.id / "finding.json"
    document.write_bytes(document.read_bytes()[:100])
    assert (nights.bug.signature, nights.bug.state) == (CONFIRMED.fail.signature, BugState.NEW)
    assert str(document) in nights.history.memory.damaged[0]


def test_memories_of_machines_are_one_in_any_order(tmp_path: Path) -> None:
    one, other = Nights(folder=tmp_path / "one"), Nights(folder=tmp_path / "other")
    one.run("1", sees=CONFIRMED)
    other.run("1", search="two")
    merged = {}
    for first, second in ((one, other), (other, one)):
        target = tmp_path / f"{first.folder.name}-first"
        night_memory.merge(target, [first.folder, second.folder, first.folder])
        memory = night_memory.read(target)
        merged[target] = sorted(run.number for run in memory.runs)
        assert memory.findings == {CONFIRMED.id: replace(CONFIRMED, cases=memory.findings[CONFIRMED.id].cases)}
    assert len({*map(tuple, merged.values())}) == 1


def test_of_cases_of_one_size_each_order_keeps_the_same(tmp_path: Path) -> None:
    one, other = Nights(folder=tmp_path / "one"), Nights(folder=tmp_path / "other")
    one.run("1", sees=CONFIRMED)
    other.run("1", sees=OTHER_CASE)
    kept = list[Case]()
    for order in ((one, other), (other, one)):
        target = tmp_path / f"{order[0].folder.name}-first"
        night_memory.merge(target, [machine.folder for machine in order])
        kept.append(night_memory.read(target).findings[CONFIRMED.id].case)
    assert kept[0] == kept[1]


def test_a_merge_repairs_what_was_cut_off(tmp_path: Path) -> None:
    whole = Nights(folder=tmp_path / "whole")
    log = whole.run("1", sees=CONFIRMED)
    shutil.copytree(whole.folder, tmp_path / "cut")
    cut = tmp_path / "cut" / "log" / log.path.name
    cut.write_bytes(cut.read_bytes()[:200])
    night_memory.merge(tmp_path / "cut", [whole.folder])
    assert cut.read_bytes() == log.path.read_bytes()


def test_a_memory_that_machines_copy_and_merge_each_night_stays_small(tmp_path: Path) -> None:
    kept = Nights(folder=tmp_path / "kept")
    kept.run("2026-0000")
    (size,) = files_of(kept.folder / "log").values()
    for number in range(1, 61):
        machines = [Nights(folder=tmp_path / f"{number}-{machine}") for machine in "ab"]
        for machine in machines:
            shutil.copytree(kept.folder, machine.folder)
        for machine in machines:
            night_memory.compact(night_memory.read(machine.folder))
            machine.run(f"2026-{number:04}")
        night_memory.merge(kept.folder, [machine.folder for machine in machines])
        logs = files_of(kept.folder / "log")
        assert len(logs) <= night_memory.MOST_LOGS
        assert sum(logs.values()) < 3 * size * (2 * number + 1)
    runs = kept.history.memory.runs
    assert (len(runs), len({run.night for run in runs})) == (121, 61)


def test_old_logs_are_put_together_without_loss(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(46):
        nights.run(f"2026-{number:04}", sees=CONFIRMED if number % 2 else None, digest=str(number))
    before = nights.history
    night_memory.compact(before.memory)
    assert len(files_of(nights.folder / "log")) == night_memory.KEPT_LOGS + 1
    assert (nights.history.bugs, nights.history.nights, nights.history.units) == (
        before.bugs,
        before.nights,
        before.units,
    )
    monkeypatch.setattr(night_memory, "MOST_LOGS", 5)
    monkeypatch.setattr(night_memory, "MOST_NIGHTS", 20)
    night_memory.compact(nights.history.memory)
    after = nights.history
    assert [bug.nights for bug in after.bugs] == [bug.nights for bug in before.bugs]
    assert len(after.nights) == len(before.nights)


def test_two_machines_that_put_logs_together_do_no_harm(nights: Nights, tmp_path: Path) -> None:
    for number in range(46):
        nights.run(f"2026-{number:04}", sees=CONFIRMED, digest=str(number))
    before = nights.history
    shutil.copytree(nights.folder, tmp_path / "other")
    night_memory.compact(before.memory)
    night_memory.merge(nights.folder, [tmp_path / "other"])
    assert nights.history.nights == before.nights
