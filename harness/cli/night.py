"""`harness night`."""

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

from harness.changes.op_digests import digests
from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import minutes, positive
from harness.cli.hypothesis_folder import use_hypothesis_folder
from harness.cli.output import ProgressLine, print_lines, print_progress
from harness.documents.chunk import Chunk
from harness.documents.night_log import RunBegun
from harness.engines.cuda.gpus.inventory import real_gpus
from harness.errors import HarnessError, UsageError
from harness.findings.known_issues import KnownIssues, read_known_issues
from harness.findings.trust import remember
from harness.findings.versions import versions
from harness.fleet.node_requests import passed_on, wanted_of
from harness.fleet.ray_cluster import RayCluster
from harness.fleet.shards import Shard, parse_shard
from harness.fleet.this_machine import ThisMachine
from harness.libraries import resolve
from harness.model.case import HARNESS_FOLDER
from harness.model.plan import Plan
from harness.model.verdict import Severity
from harness.night import night_memory
from harness.night.bug_history import BugHistory, BugState, NightHistory, history_of
from harness.night.named_releases import named_library
from harness.night.night_settings import USUAL_MINUTES, FailOn, NightSettings, SearchSettings, read_night_settings
from harness.night.night_shift import ChunkMachine, NightBudget, NightShift, planned_chunks
from harness.night.promise import NightSearch, PromisingUnit, TurnReason, units_in_order
from harness.reports.finding_text import Sources, render
from harness.reports.interrupts import Interrupts
from harness.reports.morning import morning_contents
from harness.reports.morning_text import morning_text
from harness.search.missing_libraries import refuse_missing_distributions
from harness.search.options import options_of
from harness.search.session import prepared
from harness.suite_files import project_of
from harness.wording import counted

ONE_MACHINE = Shard(number=1, count=1)
PROGRESS_S = 30.0
CHUNKS_OF_NODE = 4
"""Chunks that run or wait for each node of a cluster, in a night that ends at a time."""


def run(options: argparse.Namespace) -> ExitStatus:
    """Search until the night's budget is used up, and say what is new."""
    begun = time.monotonic()
    project = project_of(Path.cwd())
    settings = _settings(options, project)
    shard = _shard(options)
    issues = read_known_issues(settings.known, date.today())  # noqa: DTZ011 - a date that people write has no zone
    prepared(HARNESS_FOLDER)
    use_hypothesis_folder()
    history = _remembered(settings.memory)
    searches, error = _all_loaded(settings, project, options)
    ordered = [units_in_order(search, history) for search in searches]
    units = [unit for some in ordered for unit in some]
    budget = NightBudget(
        cases=settings.cases,
        deadline=None if settings.minutes is None else begun + 60 * settings.minutes,
        block=settings.block,
    )
    log = night_memory.RunLog(settings.memory, options.night or datetime.now(UTC).strftime("%Y-%m-%d"))
    log.write(
        RunBegun(
            part=str(shard),
            searches=tuple(search.name for search in searches),
            seed=settings.seed,
            versions=versions(),
            gpus=_gpus() if any(search.options.engine.needs_gpu for search in searches) else (),
            units=len(units),
        )
    )
    print_progress(_plan_line(units, history))
    with ExitStack() as stack:
        machine, capacity = _machine(options, project, budget, stack)
        interrupts = stack.enter_context(Interrupts())
        night = NightShift(machine, log, lambda finding: render(finding, Sources()).plain, print_progress)
        progress = ProgressLine(PROGRESS_S, interrupts)
        is_interrupted = False
        try:
            night.run(
                planned_chunks(ordered, budget, shard, log.run), budget, capacity, lambda: progress(_line(night, begun))
            )
        except KeyboardInterrupt:
            is_interrupted = True
        interrupts.end()
        night.stop()
        night.ended(time.monotonic() - begun, is_interrupted=is_interrupted, units=units)
    after = history_of(night_memory.read(settings.memory))
    print_lines(morning_text(morning_contents(after, issues, units=[unit.unit for unit in units])))
    if error := night.error or error:
        raise error
    return _status(after, night, issues, settings.fail_on, is_interrupted=is_interrupted)


def _settings(options: argparse.Namespace, project: Path) -> NightSettings:
    """Return the settings of the file, with what the command line says in their place."""
    settings = read_night_settings(project, options.file)
    if options.minutes and options.cases:
        raise UsageError("--minutes and --cases: a night has one of them")
    if options.memory:
        settings = replace(settings, memory=options.memory)
    if options.cases:
        return replace(settings, cases=options.cases, minutes=None)
    if options.minutes:
        return replace(settings, minutes=options.minutes, cases=None)
    if settings.cases is None and settings.minutes is None:
        return replace(settings, minutes=USUAL_MINUTES)
    return settings


def _shard(options: argparse.Namespace) -> Shard:
    if not options.shard:
        return ONE_MACHINE
    if options.ray:
        raise UsageError("--ray shares a night among the nodes of a cluster: leave out --shard")
    return parse_shard(options.shard, os.environ)


def _remembered(folder: Path) -> NightHistory:
    """Return what the memory knows; put its old logs together if there are many."""
    memory = night_memory.read(folder)
    for message in memory.damaged:
        print_progress(f"damaged, and left out: {message}")
    with suppress(HarnessError):  # of a full disk the log will tell
        night_memory.compact(memory)
    return history_of(memory)


def _all_loaded(
    settings: NightSettings, project: Path, options: argparse.Namespace
) -> tuple[list[NightSearch], HarnessError | None]:
    """Load all searches.  One that cannot be loaded, as of a library that is not there, keeps no other from its turn.

    Raises:
        HarnessError: none can be loaded.
    """
    searches, first = list[NightSearch](), None
    for search in settings.searches:
        try:
            searches.append(_loaded(search, settings, project, options))
        except HarnessError as error:
            first = first or error
            if len(settings.searches) > 1:
                print_progress(f"left out: {search.name}: {error}")
    if first is not None and not searches:
        raise first
    return searches, first


def _loaded(search: SearchSettings, settings: NightSettings, project: Path, options: argparse.Namespace) -> NightSearch:
    """Load the suites of a search, and find out which releases it tests tonight."""
    libraries = [named_library(spec, options.settings.cache) for spec in search.libraries]
    plan = Plan(
        suites=search.suites,
        op=search.op,
        device=search.device,
        seed=settings.seed,
        oracle=search.oracle,
        libraries=tuple(library.spec for library in libraries),
        engine=search.engine,
        sanitizer=search.sanitizer,
        time_limit_s=search.time_limit_s,
    )
    remember(plan.suites, plan.libraries)
    loaded = options_of(plan, options.settings, project)
    refuse_missing_distributions(loaded)
    roots = [Path(folder) for folder in resolve(plan.libraries, cache=options.settings.cache, report=print_progress)]
    return NightSearch(
        settings=search,
        options=loaded,
        release=", ".join(library.name for library in libraries),
        digests=digests(loaded.ops, roots, project),
    )


def _gpus() -> tuple[str, ...]:
    return tuple(f"{gpu.name}, driver {gpu.driver_version or 'unknown'}" for gpu in real_gpus())


def _machine(
    options: argparse.Namespace, project: Path, budget: NightBudget, stack: ExitStack
) -> tuple[ChunkMachine, int]:
    """Return where chunks run, and how many may run or wait there at once."""
    if not options.ray:
        return _OneMachine(stack.enter_context(ThisMachine(project))), 1
    cluster = stack.enter_context(RayCluster(options.ray, project))
    if budget.cases is not None:  # all chunks are known
        return _RayMachine(cluster), sys.maxsize
    return _RayMachine(cluster), CHUNKS_OF_NODE * max(len(cluster.nodes), 1)


class _OneMachine:
    """This machine, whose GPUs a chunk leases by itself."""

    def __init__(self, machine: ThisMachine) -> None:
        self._machine = machine
        self.ended, self.events, self.cancel = machine.ended, machine.events, machine.cancel

    @property
    def pending(self) -> int:
        return self._machine.pending

    def submit(self, chunk: Chunk, unit: PromisingUnit) -> None:
        del unit
        self._machine.submit(chunk, ())


class _RayMachine:
    """A cluster, of whose nodes a chunk asks what its device needs."""

    def __init__(self, cluster: RayCluster) -> None:
        self._cluster = cluster
        self.ended, self.events, self.cancel = cluster.ended, cluster.events, cluster.cancel

    @property
    def pending(self) -> int:
        return self._cluster.pending

    def submit(self, chunk: Chunk, unit: PromisingUnit) -> None:
        asked = wanted_of(unit.search.options, unit.device, self._cluster.nodes)
        self._cluster.submit(chunk, passed_on(asked), asked)


def _plan_line(units: Sequence[PromisingUnit], history: NightHistory) -> str:
    changed = sum(unit.reason is TurnReason.CHANGED for unit in units)
    bugs = sum(bug.is_open for bug in history.bugs)
    nights = counted(len(history.nights), "night") if history.nights else "no night"
    return (
        f"{nights} before; {counted(len({unit.unit[:2] for unit in units}), 'op')} on "
        f"{counted(len({unit.device.slug for unit in units}), 'device')}: {changed} of {len(units)} new or changed; "
        f"{counted(bugs, 'open bug')}"
    )


def _line(night: NightShift, begun: float) -> str:
    clock, seconds = divmod(int(time.monotonic() - begun), 60)
    return (
        f"{counted(len(night.tried), 'chunk')} · {counted(night.cases, 'case')} · "
        f"{counted(len(night.findings), 'bug')} seen · {clock}:{seconds:02d}"
    )


def _status(
    history: NightHistory, night: NightShift, issues: KnownIssues, fail_on: FailOn, *, is_interrupted: bool
) -> ExitStatus:
    known = {issue.finding for issue in issues.among(night.findings.values())}
    seen = [bug for bug in history.bugs if bug.id in night.findings and bug.id not in known]
    if any(_counts(bug, fail_on) for bug in seen):
        return ExitStatus.FINDINGS
    if is_interrupted:
        return ExitStatus.INTERRUPTED
    if not any(chunk.checked for chunk in night.tried):
        return ExitStatus.NOTHING_CHECKED
    return ExitStatus.CLEAN


def _counts(bug: BugHistory, fail_on: FailOn) -> bool:
    match fail_on:
        case FailOn.NEVER:
            return False
        case FailOn.WARNING:
            return True
        case FailOn.ERROR:
            return bug.severity is Severity.ERROR
        case FailOn.NEW:
            return bug.severity is Severity.ERROR and bug.state in {BugState.NEW, BugState.BACK}


def add_options(parser: Parser) -> None:
    parser.epilog = """\
What to search is in harness.toml, or in [tool.kernel-harness.night] of pyproject.toml: suites, releases, devices,
engines, budgets.  Without it a night searches the folder suites.  Each night goes on where the last one ended: first
what is new or has changed, then what has open bugs, then what was tried longest ago.

examples:
  harness night                          as the settings say, or for an hour
  harness night --minutes 10             a short one
  harness night --shard 2/8 --night 417  one of eight machines of one night
  harness morning                        then: what is new, there and gone

exit status: 0 nothing that counts, 1 new errors (or what the setting fail-on says), 2 usage or harness error, 3 nothing
could be checked, 130 interrupted
"""
    parser.add_argument("--minutes", type=minutes, metavar="M", help=f"minutes for all (default: {USUAL_MINUTES:g})")
    parser.add_argument("--cases", type=positive, metavar="N", help="a number of cases instead")
    parser.add_argument("--memory", type=Path, metavar="FOLDER", help="the memory of all nights (default: nights)")
    parser.add_argument("--file", type=Path, metavar="FILE", help="the settings (default: those of the project)")
    parser.add_argument(
        "--night", type=_night_name, metavar="NAME", help="by which machines share one night (default: today's date)"
    )
    machines = parser.add_mutually_exclusive_group()
    machines.add_argument(
        "--shard", metavar="I/N", help="run the I-th of N parts of the night; auto: as the CI system says"
    )
    machines.add_argument(
        "--ray", metavar="ADDRESS", help="run on a Ray cluster; auto: that of this machine (extra: cluster)"
    )


def _night_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", text):
        raise argparse.ArgumentTypeError(f"{text!r}: write letters, digits, - and _, at most 40")
    return text
