"""`harness fuzz --ray`: the chunks of a search on a Ray cluster, and one progress line for all of them."""

import argparse
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from rich.console import Console
from rich.status import Status
from rich.text import Text

from harness.cli.command import ExitStatus
from harness.cli.output import ProgressLine
from harness.cli.search_output import FirstError, ReportFiles, print_report, status_of, write
from harness.documents.chunk import Chunk, ChunkReport, ShardReport
from harness.errors import HarnessError, UsageError
from harness.findings import store
from harness.findings.known_issues import KnownIssues
from harness.findings.report_merging import merge_shards
from harness.findings.search_log import SearchLog
from harness.findings.versions import versions
from harness.fleet.chunk_plan import chunks_of
from harness.fleet.event_stream import CaseCount, Notice, event_in
from harness.fleet.node_requests import passed_on, wanted_of
from harness.fleet.ray_cluster import Done, RayCluster
from harness.model.case import HARNESS_FOLDER
from harness.model.finding import Finding
from harness.model.verdict import Severity, Signature
from harness.reports.finding_text import Sources, render
from harness.reports.interrupts import Interrupts
from harness.search.options import Options
from harness.search.session import prepared
from harness.wording import counted, visible

PLAIN_EVERY_S = 5.0


def run_on_ray(
    arguments: argparse.Namespace, options: Options, issues: KnownIssues, report_files: ReportFiles
) -> ExitStatus:
    """Run a search on a cluster, and print and write what it finds.

    Raises:
        MissingPart: Ray is not installed.
        UsageError: there is no cluster, or an option cannot be meant for one.
    """
    if arguments.minutes:
        raise UsageError("--ray takes --cases: how many chunks run at once is not known beforehand")
    chunks = chunks_of(options, 1, dict(arguments.env))
    prepared(HARNESS_FOLDER)
    # Ray sets handlers of its own.
    with RayCluster(arguments.ray, options.project) as cluster, Interrupts() as interrupts:
        run = FleetRun(cluster, chunks, interrupts)
        run.submit(options)
        run.follow()
        interrupts.end()
    return run.finish(report_files, issues, Severity(arguments.fail_on))


class FleetRun:
    """The chunks of one search on a cluster."""

    def __init__(self, cluster: RayCluster, chunks: Sequence[Chunk], interrupts: Interrupts) -> None:
        self._cluster = cluster
        self._chunks = chunks
        self._interrupts = interrupts
        self._begun = time.monotonic()
        self._reports: list[ChunkReport] = []
        self._failures: list[Done] = []
        self._counts: dict[str, CaseCount] = {}
        """The latest of each chunk, by its id."""
        self._seen: set[Signature] = set()
        self._log = SearchLog(store.FOLDER, lambda finding: render(finding, Sources()).plain, versions())
        self._errors = FirstError()
        self._is_interrupted = False
        self._screen = Console(stderr=True, highlight=False)

    def submit(self, options: Options) -> None:
        """Hand all chunks to Ray, and say if no node can run one now."""
        nodes = self._cluster.nodes
        wanted = {device.slug: wanted_of(options, device, nodes) for device in options.devices}
        for chunk in self._chunks:
            asked = wanted[str(chunk.plan.device)]
            self._cluster.submit(chunk, passed_on(asked), asked)
        for asked in dict.fromkeys(wanted.values()):
            if not any(node.offers(asked) for node in nodes):
                self._say(f"no node offers {asked} now: such chunks wait for one that joins")

    def follow(self) -> None:
        """Wait for all chunks, and store what they tell meanwhile."""
        progress = ProgressLine(PLAIN_EVERY_S, self._interrupts)
        try:
            with Status("", console=self._screen) if self._screen.is_terminal else nullcontext() as status:
                while self._cluster.pending:
                    for done in self._cluster.ended():
                        self._take(done)
                    for chunk, line in self._cluster.events():
                        self._hear(chunk, line)
                    if status is not None:
                        self._interrupts.check()
                        status.update(Text(self._line))
                    else:
                        progress(self._line)
        except KeyboardInterrupt:
            self._is_interrupted = True

    def finish(self, report_files: ReportFiles, issues: KnownIssues, fail_on: Severity) -> ExitStatus:
        """Write and print the report of the chunks that ended; return the status of the whole search."""
        search, count = self._chunks[0].search, len(self._chunks)
        shard = ShardReport(search=search, chunk_count=count, shard=0, shard_count=0, chunks=tuple(self._reports))
        if (path := report_files.json) is not None:
            self._errors.attempt(lambda: write(shard, path))
        for done in self._failures:
            self._say(f"{done.chunk} has no result: {done.failure}")
        if not self._reports:
            if self._is_interrupted:
                return ExitStatus.INTERRUPTED
            self._errors.raise_kept()
            raise HarnessError("no chunk has a result")
        report = replace(merge_shards([shard], issues), interrupted=self._is_interrupted)
        for finding in report.findings:
            self._keep(finding)
        print_report(report, Sources(), report_files.lcov)
        self._errors.raise_kept()
        return status_of(report, fail_on)

    def _take(self, done: Done) -> None:
        if done.report is None:
            self._failures.append(done)
            return
        self._reports.append(done.report)
        report = done.report.report
        self._counts[done.chunk.id] = CaseCount(cases=report.cases, failures=len(report.findings))

    def _hear(self, chunk: str, line: str) -> None:
        match event_in(line):
            case CaseCount() as count:
                self._counts[chunk] = count
            case Finding() as finding:
                signature = finding.fail.signature
                if signature not in self._seen:
                    self._seen.add(signature)
                    self._say(f"seen: {signature.severity}, {signature}")
                if signature not in self._log or finding.confirmed:
                    self._keep(finding)
            case Notice(text=text):
                self._say(text)
            case None:
                pass

    def _say(self, line: str) -> None:
        """Print a line above the progress line."""
        self._screen.print(Text(visible(line)), soft_wrap=True)

    def _keep(self, finding: Finding) -> None:
        self._errors.attempt(lambda: self._log.keep(finding.fail.signature, finding))

    @property
    def _line(self) -> str:
        cases = sum(count.cases for count in self._counts.values())
        minutes, seconds = divmod(int(time.monotonic() - self._begun), 60)
        ended = len(self._reports) + len(self._failures)
        nodes = self._cluster.nodes
        return (
            f"{ended}/{len(self._chunks)} chunks · {counted(cases, 'case')} · "
            f"{counted(len(self._seen), 'failure')} seen · {counted(len(nodes), 'node')} · {minutes}:{seconds:02d}"
        )
