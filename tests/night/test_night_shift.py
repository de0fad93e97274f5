"""What a machine's part of a night writes down of what its chunks tell."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, permutations
from pathlib import Path

import pytest

from harness import catalogue
from harness.documents.chunk import Chunk, ChunkReport
from harness.engines.cuda.gpus.assignment import IN_QUARANTINE
from harness.fleet.event_stream import EventStream
from harness.fleet.ray_cluster import Done
from harness.fleet.shards import Shard
from harness.model.case import Case
from harness.model.finding import Finding
from harness.night import night_memory
from harness.night.bug_history import history_of
from harness.night.night_memory import RunLog
from harness.night.night_settings import SearchSettings
from harness.night.night_shift import NightBudget, NightShift, planned_chunks
from harness.night.promise import NightSearch, PromisingUnit, TurnReason, turns, units_in_order
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options
from harness.suite import load_suite
from tests.cli.fake_engine import suite_of
from tests.night.nights import CONFIRMED, OTHER_CASE
from tests.reports.samples import REPORT

SICK = f"NVIDIA H200 (GPU-1, 132 SMs) {IN_QUARANTINE} for this session: Xid 79"
BUDGET = NightBudget(cases=16, deadline=None, block=8)


class ToldMachine:
    """A machine whose chunks tell a finding each, and a sick GPU; every second chunk has no result."""

    def __init__(self, *findings: Finding) -> None:
        self._findings = cycle(findings or (CONFIRMED,))
        self._waiting: list[tuple[Chunk, Finding]] = []
        self._lines: list[tuple[str, str]] = []

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def submit(self, chunk: Chunk, unit: PromisingUnit) -> None:
        del unit
        finding = next(self._findings)
        self._waiting.append((chunk, finding))
        stream = EventStream(lambda line: self._lines.append((chunk.id, line)))
        stream.found(finding)
        stream.notice(SICK)
        stream.notice("installing something")

    def ended(self) -> Iterator[Done]:
        chunk, finding = self._waiting.pop(0)
        if chunk.number % 2:
            yield Done(chunk=chunk, report=ChunkReport(chunk=chunk, report=replace(REPORT, findings=(finding,))))
        else:
            yield Done(chunk=chunk, failure="it died " + "again and " * 100)

    def events(self) -> list[tuple[str, str]]:
        lines, self._lines = self._lines, []
        return lines

    def cancel(self) -> None:
        self._waiting.clear()


@pytest.fixture
def search(tmp_path: Path) -> NightSearch:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "norm.py").write_text(suite_of("one", "two"), encoding="utf-8")
    options = Options(
        suites=("suites/norm.py",),
        ops=load_suite("suites/norm.py", tmp_path),
        devices=catalogue.find_all("h200"),
        budget=CaseBudget(cases=1),
        seed=0,
        project=tmp_path,
    )
    settings = SearchSettings(name="all", suites=options.suites)
    return NightSearch(settings=settings, options=options, release="lib 1.0", digests={})


def test_a_night_writes_down_bugs_failures_and_sick_gpus(search: NightSearch, tmp_path: Path) -> None:
    memory = tmp_path / "nights"
    units = units_in_order(search, history_of(night_memory.read(memory)))
    shift = NightShift(ToldMachine(), RunLog(memory, "1"), lambda _: "text", lambda _: None)
    shift.run(planned_chunks([units], BUDGET, Shard(number=1, count=1), "night"), BUDGET, 1, lambda: None)
    ended = shift.ended(1.0, is_interrupted=False, units=units)
    assert (ended.quarantined, ended.untried) == ((SICK,), 1)
    (run,) = night_memory.read(memory).runs
    assert [bool(chunk.failure) for chunk in run.tried] == [False, True]
    assert max(len(chunk.failure) for chunk in run.tried) <= 300
    assert [sighting.finding for sighting in run.seen] == [CONFIRMED.id]


def test_the_smallest_case_is_kept_whichever_chunk_tells_it_last(search: NightSearch, tmp_path: Path) -> None:
    larger = replace(CONFIRMED, case=replace(CONFIRMED.case, dims={**CONFIRMED.case.dims, "T": 4096}))
    budget = replace(BUDGET, cases=24)
    kept = list[Case]()
    for number, told in enumerate(permutations((CONFIRMED, OTHER_CASE, larger))):
        memory = tmp_path / f"{number}"
        units = units_in_order(search, history_of(night_memory.read(memory)))
        shift = NightShift(ToldMachine(*told), RunLog(memory, "1"), lambda _: "text", lambda _: None)
        shift.run(planned_chunks([units], budget, Shard(number=1, count=1), "night"), budget, 1, lambda: None)
        assert len(shift.tried) == len(told)
        kept.append(night_memory.read(memory).findings[CONFIRMED.id].case)
    assert kept == [kept[0]] * len(kept)
    assert kept[0].dims == CONFIRMED.case.dims


def test_searches_have_turns_by_their_shares(search: NightSearch) -> None:
    history = history_of(night_memory.read(Path("nowhere")))
    twice = replace(search, settings=replace(search.settings, name="twice", share=2.0))
    order = turns([units_in_order(search, history), units_in_order(twice, history)])
    names = [next(order)[0].search.name for _ in range(9)]
    assert (names.count("all"), names.count("twice")) == (3, 6)


def test_changed_ops_come_before_those_that_were_tried(search: NightSearch, tmp_path: Path) -> None:
    memory = tmp_path / "nights"
    first = units_in_order(search, history_of(night_memory.read(memory)))
    assert {unit.reason for unit in first} == {TurnReason.CHANGED}
    shift = NightShift(ToldMachine(), RunLog(memory, "1"), lambda _: "text", lambda _: None)
    budget = replace(BUDGET, cases=8)
    shift.run(planned_chunks([first], budget, Shard(number=1, count=1), "night"), budget, 1, lambda: None)
    after = units_in_order(search, history_of(night_memory.read(memory)))
    assert [(unit.op.name, unit.reason) for unit in after] == [
        ("two", TurnReason.CHANGED),
        ("one", TurnReason.LONG_AGO),
    ]
    changed = replace(search, digests={"suites/norm.py:one": "new"})
    assert {unit.reason for unit in units_in_order(changed, history_of(night_memory.read(memory)))} == {
        TurnReason.CHANGED
    }
