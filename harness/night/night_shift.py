"""One machine's part of a night: it tries ops in their order, and writes down at once what happens."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from textwrap import shorten
from typing import Protocol

from harness.documents.chunk import Chunk, ChunkReport, shard_of
from harness.documents.night_log import ChunkTried, RunEnded, sighting_of
from harness.documents.night_unit import NightUnit
from harness.engines.cuda.gpus.assignment import IN_QUARANTINE
from harness.errors import HarnessError, StoreError
from harness.findings import store
from harness.findings.versions import versions
from harness.fleet.chunk_plan import chunk_of_block
from harness.fleet.event_stream import CaseCount, event_in
from harness.fleet.ray_cluster import Done
from harness.fleet.shards import Shard
from harness.model.case import Case
from harness.model.finding import Finding
from harness.night.night_memory import RunLog, keep_finding, keep_unit
from harness.night.night_settings import GPU_BLOCK, USUAL_BLOCK
from harness.night.promise import PromisingUnit, turns
from harness.search.campaign_plan import CaseBudget

LONGEST_CHUNK_S = 300.0
SHORTEST_CHUNK_S = 15.0
"""Less than this at the end of a night is too little for a chunk."""
REASONS = 3
LONGEST_FAILURE = 300
PROMISING_PART = 4
"""Of so many cases of a block, one is a promising one of earlier nights."""


class ChunkMachine(Protocol):
    """Where chunks run: this machine, or a cluster."""

    @property
    def pending(self) -> int: ...

    def submit(self, chunk: Chunk, unit: PromisingUnit) -> None: ...

    def ended(self) -> Iterator[Done]: ...

    def events(self) -> Iterable[tuple[str, str]]: ...

    def cancel(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NightBudget:
    """How much a night may search: a number of cases, or until a time."""

    cases: int | None
    deadline: float | None
    """By `time.monotonic`."""
    block: int | None
    """Cases of a chunk; None: as many as are usual for its engine."""

    @property
    def left_s(self) -> float:
        return self.deadline - time.monotonic() if self.deadline is not None else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChunk:
    """A chunk of a night, and the unit that it tries."""

    chunk: Chunk
    unit: PromisingUnit
    block: int
    replayed: tuple[str, ...]
    """The ids of the open bugs whose cases it runs first."""


def planned_chunks(
    searches: Sequence[Sequence[PromisingUnit]], budget: NightBudget, shard: Shard, name: str
) -> Iterator[PlannedChunk]:
    """Yield the chunks of one machine in their order, until the budget is used up.

    All machines of a night plan the same chunks, and each takes its own.  In a night with a deadline there is no last
    chunk: the caller takes as many as it has time for.  `name` stands in the names of the chunks.
    """
    count = sum(map(len, searches))
    cases = 0
    for number, (unit, turn) in enumerate(turns(searches), 1):
        block = budget.block or (GPU_BLOCK if unit.search.options.engine.needs_gpu else USUAL_BLOCK)
        size = block if budget.cases is None else min(block, budget.cases - cases)
        if size <= 0:
            return
        cases += size
        if shard_of(number, shard.count) == shard.number:
            planned = _planned(unit, turn, size)
            chunk = replace(planned.chunk, search=name, number=number, count=max(count, number))
            yield replace(planned, chunk=chunk)


def _planned(unit: PromisingUnit, turn: int, size: int) -> PlannedChunk:
    options = replace(unit.search.options, budget=CaseBudget(cases=size))
    block = unit.known.next_block + turn
    chunk = chunk_of_block(options, unit.op, unit.device, block, size)
    bugs = () if turn else tuple(bug for bug in unit.open_bugs if _repeats_alone(bug.finding))
    first = tuple(_on_device(bug.finding, unit) for bug in bugs if bug.finding is not None)
    if not turn:  # promising ones get a part of the block alone: draws find what nobody has seen yet
        first = (*first, *unit.promising[: size // PROMISING_PART])
    chunk = replace(chunk, plan=replace(chunk.plan, first_cases=first))
    return PlannedChunk(chunk=chunk, unit=unit, block=block, replayed=tuple(bug.id for bug in bugs))


def _repeats_alone(finding: Finding | None) -> bool:
    return finding is not None and finding.preceding_case is None and finding.watched is None


def _on_device(finding: Finding, unit: PromisingUnit) -> Case:
    """Return the smallest case of a bug, on the device of the unit."""
    case = finding.case
    return case if case.device.slug == unit.device.slug else replace(case, device=unit.device)


class NightShift:
    """The work of one machine in one night."""

    def __init__(
        self, machine: ChunkMachine, log: RunLog, text_of: Callable[[Finding], str], say: Callable[[str], object]
    ) -> None:
        """Run chunks on a machine, and log what they tell.

        Args:
            machine: where they run.
            log: of this run.
            text_of: a finding as it is printed.
            say: prints a line.
        """
        self._machine = machine
        self._log = log
        self._memory = log.folder
        self._text_of = text_of
        self._say = say
        self._planned: dict[str, PlannedChunk] = {}
        """By the id of their chunk, those that run or wait."""
        self._told: dict[tuple[str, str, str], object] = {}
        """What was logged last of a bug in a search on a device."""
        self._quarantined: dict[str, None] = {}
        self.error: HarnessError | None = None
        """The first error of the disk."""
        self.tried: list[ChunkTried] = []
        self.findings: dict[str, Finding] = {}
        """The bugs that this run saw, by id, each with the smallest case so far."""
        self._counts: dict[str, int] = {}
        """Cases so far of chunks that run, by their ids."""

    @property
    def cases(self) -> int:
        """How many cases ran so far."""
        return sum(chunk.cases for chunk in self.tried) + sum(self._counts.values())

    def run(
        self, planned: Iterator[PlannedChunk], budget: NightBudget, capacity: int, check: Callable[[], None]
    ) -> None:
        """Run the planned chunks until the budget is used up.

        Args:
            planned: the chunks, in their order.
            budget: how much of them.
            capacity: how many chunks may run or wait at once.
            check: is called often, and may raise `KeyboardInterrupt`.
        """
        has_more = True
        while True:
            while has_more and self._machine.pending < capacity and budget.left_s > SHORTEST_CHUNK_S:
                following = next(planned, None)
                if following is None:
                    has_more = False
                else:
                    self._submit(following, budget)
            if not self._machine.pending:
                return
            check()
            self.follow()
            if budget.left_s < 0:
                self.stop()
                return

    def follow(self) -> None:
        """Log what chunks have told and reported, after waiting a moment."""
        for done in self._machine.ended():
            self._hear_all()
            self._take(done)
        self._hear_all()

    def stop(self) -> None:
        """End the chunks that run, and log what they report."""
        self._machine.cancel()
        while self._machine.pending:
            before = self._machine.pending
            self.follow()
            if self._machine.pending == before:
                return

    def ended(self, seconds: float, *, is_interrupted: bool, units: Sequence[PromisingUnit]) -> RunEnded:
        """Log the end of the run, and return what was logged."""
        tried = {(chunk.search, chunk.op, chunk.device) for chunk in self.tried if chunk.cases}
        end = RunEnded(
            seconds=round(seconds, 3),
            is_interrupted=is_interrupted,
            untried=sum(unit.unit not in tried for unit in units),
            quarantined=tuple(self._quarantined),
        )
        self._attempt(lambda: self._log.write(end))
        return end

    def _submit(self, planned: PlannedChunk, budget: NightBudget) -> None:
        chunk = planned.chunk
        if budget.deadline is not None:
            seconds = round(min(LONGEST_CHUNK_S, budget.left_s), 1)
            chunk = replace(chunk, plan=replace(chunk.plan, seconds=seconds))
        self._planned[chunk.id] = planned
        self._machine.submit(chunk, planned.unit)

    def _hear_all(self) -> None:
        for identity, line in self._machine.events():
            planned = self._planned.get(identity)
            event = event_in(line)
            if planned is None or event is None:
                continue
            if isinstance(event, CaseCount):
                self._counts[identity] = event.cases
            elif isinstance(event, Finding):
                self._see(event, planned)
            elif IN_QUARANTINE in event.text:
                self._quarantined.setdefault(event.text)

    def _see(self, finding: Finding, planned: PlannedChunk) -> None:
        """Log a finding, as it is now, if more is known of it than before."""
        key = (planned.unit.search.name, planned.unit.device.slug, finding.id)
        known = (finding.case.digest, finding.confirmation, finding.repeats, finding.severity, finding.symptoms)
        if self._told.get(key) == known:
            return
        if finding.id not in self.findings:
            self._say(f"seen: {finding.severity}, {finding.fail.signature} ({planned.unit.search.name})")
        self._told[key] = known
        unit = planned.unit
        sighting = sighting_of(
            finding, search=unit.search.name, op=unit.op.id, device=unit.device.slug, release=unit.search.release
        )
        self._attempt(lambda: self._log.write(sighting))
        best = min(finding, self.findings.get(finding.id, finding), key=store.rank)
        self.findings[finding.id] = best
        self._keep(finding)
        if best is not finding:  # chunks end in any order, and the memory's finding is the one that is kept last
            self._keep(best)

    def _keep(self, finding: Finding) -> None:
        self._attempt(lambda: keep_finding(finding, self._memory, self._text_of(finding), versions()))

    def _take(self, done: Done) -> None:
        planned = self._planned.pop(done.chunk.id)
        self._counts.pop(done.chunk.id, None)
        report = done.report
        for finding in report.report.findings if report else ():
            self._see(finding, planned)
        tried = _tried(planned, report, done.failure)
        self.tried.append(tried)
        self._attempt(lambda: self._log.write(tried))
        if report is not None:
            unit = planned.unit
            notes = NightUnit(
                search=unit.search.name,
                op=unit.op.id,
                device=unit.device.slug,
                digest=unit.digest,
                release=unit.search.release,
                promising=report.report.promising,
                kernel_lines=report.report.kernel_lines,
            )
            self._attempt(lambda: keep_unit(notes, self._memory))
        if tried.failure:
            self._say(f"{planned.unit.op.name} on {planned.unit.device.slug} has no result: {tried.failure}")

    def _attempt(self, write: Callable[[], object]) -> None:
        """Write something; a full disk ends no night, and what was found is still printed."""
        try:
            write()
        except StoreError as error:
            self.error = self.error or error


def _tried(planned: PlannedChunk, done: ChunkReport | None, failure: str) -> ChunkTried:
    unit = planned.unit
    tried = ChunkTried(
        search=unit.search.name,
        op=unit.op.id,
        device=unit.device.slug,
        engine=str(unit.search.options.engine),
        libraries=unit.search.options.libraries,
        release=unit.search.release,
        digest=unit.digest,
        block=planned.block,
        failure=shorten(failure, LONGEST_FAILURE, placeholder=" …"),
    )
    if done is None:
        return tried
    report = done.report
    return replace(
        tried,
        passed=report.passed,
        failed=report.failed,
        abstained=report.abstained,
        abstain_reasons=dict(islice(report.abstain_reasons.items(), REASONS)),
        seconds=round(report.seconds + report.triage_seconds, 3),
        is_cut_off=report.interrupted,
        replayed=planned.replayed,
    )
