"""The chunks that `harness fuzz --shard` and `--chunk` run, one after another with the same processes."""

import argparse
from collections.abc import Sequence

from harness.cli.command import ExitStatus
from harness.cli.search_output import FirstError, ReportFiles, print_notice, print_report, status_of, write
from harness.cli.search_run import SearchRun
from harness.documents import files
from harness.documents.chunk import Chunk, ChunkReport, ShardReport
from harness.errors import StoreError, UsageError
from harness.findings.known_issues import NO_ISSUES, KnownIssues
from harness.findings.regressions import Regression
from harness.findings.report_merging import merge_chunks
from harness.fleet.chunk_plan import chunks_of_shard, options_of_chunk
from harness.fleet.event_stream import EventStream
from harness.fleet.shards import NO_SHARD, Shard
from harness.model.case import HARNESS_FOLDER
from harness.model.plan import TIME_LIMIT_S
from harness.model.verdict import Severity
from harness.reports.finding_text import Sources
from harness.reports.interrupts import Interrupts
from harness.search.options import Options
from harness.search.session import Session, prepared
from harness.workers.spec import Isolation

CHUNKS = HARNESS_FOLDER / "chunks"
OF_THE_SEARCH = {
    **{name: f"--{name}" for name in ("op", "device", "sm", "env", "cases", "minutes", "seed", "oracle", "sanitizer")},
    "suites": "SUITE",
    "libraries": "--with",
    "time_limit": "--time-limit",
    "isolation": "--isolation",
}
"""Options that a chunk's file holds, by the names that `argparse` has for them."""


def read_chunk(options: argparse.Namespace) -> Chunk:
    """Read the file of `--chunk`.

    Raises:
        ReplayError: the file holds no chunk.
        UsageError: an option says what the file says.
    """
    for name, option in OF_THE_SEARCH.items():
        if getattr(options, name) and getattr(options, name) not in (TIME_LIMIT_S, Isolation.WORKER):
            raise UsageError(f"{options.chunk} says what to search: leave out {option}")
    return files.read(options.chunk, Chunk)


class ChunkRuns:
    """The chunks of one command, and what those that ran have reported."""

    def __init__(
        self,
        chunks: Sequence[Chunk],
        report_files: ReportFiles,
        shard: Shard = NO_SHARD,
        events: EventStream | None = None,
        regressions: Sequence[Regression] = (),
    ) -> None:
        """Run the chunks of this shard, and replay its share of the regressions; all of them without a shard."""
        self._chunks = chunks_of_shard(chunks, shard.number, shard.count) if shard.count else chunks
        self._search, self._chunk_count = chunks[0].search, chunks[0].count
        shares = min(shard.count, self._chunk_count) or 1  # further shards have no chunk
        self._regressions = regressions[(shard.number or 1) - 1 :: shares]
        self._shard = shard
        self._files = report_files
        self._events = events
        self._reports: list[ChunkReport] = []
        self._errors = FirstError()

    def run(self, options: Options, issues: KnownIssues, fail_on: Severity) -> ExitStatus:
        """Run the chunks of a search with these options; print and write what they report."""
        sources = Sources()
        with Interrupts() as interrupts:
            if self._chunks:
                with Session(options, self._notify) as session:
                    sources = Sources(roots=session.sources)
                    self._run(session, options, interrupts)
            interrupts.end()
            self._attempt_to_write()
            if not self._reports:
                return self._nothing_ran()
            report = merge_chunks(self._reports, issues)
            if self._events is None:
                print_report(report, sources, self._files.lcov)
        self._errors.raise_kept()
        return status_of(report, fail_on)

    def _notify(self, text: str) -> None:
        print_notice(text)
        if self._events is not None:
            self._events.notice(text)

    def _run(self, session: Session, options: Options, interrupts: Interrupts) -> None:
        try:
            for chunk in self._chunks:
                interrupts.check()
                self._keep_file(chunk)
                print_notice(str(chunk))
                session.begin(options_of_chunk(options, chunk))
                search = SearchRun(session, interrupts, self._events, () if self._reports else self._regressions)
                search.run()
                with interrupts.deferred():
                    self._reports.append(ChunkReport(chunk=chunk, report=search.report(NO_ISSUES)))
                    self._errors.keep(search.errors.error)
                    self._attempt_to_write()
                if search.was_interrupted:
                    return
        except KeyboardInterrupt:
            pass

    def _keep_file(self, chunk: Chunk) -> None:
        """Write the file with which a person repeats the chunk."""
        try:
            write(chunk, prepared(CHUNKS) / f"{chunk.id}.json")
        except (StoreError, UsageError) as error:
            self._errors.keep(error)

    def _attempt_to_write(self) -> None:
        """Write the report so far."""
        if (path := self._files.json) is not None:
            self._errors.attempt(lambda: write(self.document, path))

    @property
    def document(self) -> ShardReport:
        """The report so far."""
        return ShardReport(
            search=self._search,
            chunk_count=self._chunk_count,
            shard=self._shard.number,
            shard_count=self._shard.count,
            chunks=tuple(self._reports),
        )

    def _nothing_ran(self) -> ExitStatus:
        self._errors.raise_kept()
        if self._chunks:
            return ExitStatus.INTERRUPTED
        print_notice(f"no chunk falls to shard {self._shard}: the search has {self._chunk_count}")
        return ExitStatus.CLEAN
