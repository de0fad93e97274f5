"""The tests that suites become: one for each op and device, and one for each case of a regression file."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property
from inspect import unwrap
from pathlib import Path
from typing import Any

import pytest

from harness import catalogue, libraries
from harness.documents.campaign import KnownFinding, counts
from harness.engines.cuda.sanitizers.suppressions import FILE as ACCEPTS
from harness.errors import HarnessError, LibraryError, SuiteError
from harness.findings.campaign_report import report_of
from harness.findings.known_issues import FILE, KnownIssues, read_known_issues
from harness.findings.recorded_cases import Recorded, read
from harness.findings.rerun import ReplayStatus, options_for, replay
from harness.findings.trust import refuse_foreign_code, remember
from harness.model.device import DeviceProfile
from harness.model.engine_traits import VIRTUAL, EngineTraits
from harness.model.finding import Finding
from harness.model.op import Op
from harness.model.plan import Plan
from harness.model.verdict import Severity
from harness.project_settings import read_project_settings
from harness.pytest_plugin import gpu_workers, run_summary, shard_reports
from harness.pytest_plugin.gpu_workers import engine_for, why_virtual
from harness.pytest_plugin.plugin_options import AUTO, SETTINGS, devices_for, in_pytest_options
from harness.pytest_plugin.sessions import Searches, SearchTarget
from harness.reports.finding_text import Sources, render
from harness.reports.junit import properties
from harness.reports.summary import summary
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.options import Options, SanitizerChoice, load_ops, options_of, sanitizer_for
from harness.search.session import Session
from harness.settings import Settings
from harness.suite_files import is_shipped, named_in_project, project_of
from harness.wording import visible

DEVICES = 2
"""Devices whose searches run at the same time: to load the libraries for the next one takes seconds."""


class FindingWarning(pytest.PytestWarning):
    """A finding below the severity that fails a test."""


class Failed(Exception):
    """A test's failure.  Its text is printed without a traceback."""


class SuiteFile(pytest.File):
    """A suite file."""

    def collect(self) -> Iterator[pytest.Item]:
        """Return a test for each op and device; none if the suite skips itself."""
        suite = named_in_project(str(self.path))
        try:
            ops = load_ops((suite,), (), project_of(Path.cwd()))
        except HarnessError as error:
            if isinstance(error.__cause__, pytest.skip.Exception):
                raise error.__cause__ from None
            raise self.CollectError(in_pytest_options(str(error))) from None
        # Devices in the outer loop: the processes of a device serve all its tests before the next device's start.
        for device in devices_for(self.config):
            for op in ops:
                name = f"{op.name}[{device.slug}]"
                yield SearchItem.from_parent(self, name=name, op=op, ops=ops, device=device)


class RegressionFile(pytest.File):
    """A replay file."""

    def collect(self) -> Iterator[pytest.Item]:
        """Return a test for each case in it."""
        try:
            cases = read(self.path)
        except HarnessError as error:
            raise self.CollectError(str(error)) from None
        for recorded in cases:
            yield RegressionItem.from_parent(self, name=f"{recorded.case.op_name}[{recorded.id}]", recorded=recorded)


class HarnessItem(pytest.Item):
    """The base of both kinds of test: the marks of its device, its engine, and how it fails."""

    def __init__(self, *, device: DeviceProfile, name: str, parent: pytest.Collector, **kwargs: Any) -> None:
        # pytest 9.2 parses ids that `--lf` reads: with a bracket, they equal only ids that were given as text.
        super().__init__(name=name, parent=parent, nodeid=f"{parent.nodeid}::{name}", **kwargs)
        self.device = device
        for mark in catalogue.marks(device):
            self.add_marker(mark)

    def check(
        self,
        findings: tuple[Finding, ...],
        session: Session,
        failing: Collection[Finding],
        known: tuple[KnownFinding, ...] = (),
    ) -> None:
        """Fail for the `failing` findings, unless they are known; warn of the others."""
        self.user_properties += [(entry.name, entry.value) for finding in findings for entry in properties(finding)]
        links = {issue.finding: f" (known: {issue.link})" for issue in known}
        bad = [finding for finding in findings if finding in failing and finding.id not in links]
        for finding in findings:
            if finding not in bad:
                link = links.get(finding.id, "")
                self.warn(FindingWarning(visible(f"{finding.fail.signature}: {finding.fail.message}{link}")))
        if bad:
            raise Failed(self.failure_text(bad, session))

    def keep(self, findings: Iterable[Finding], session: Session) -> None:
        """Store findings of a single case.  A store that cannot be written hides no failure."""
        try:
            searches_of(self.config).keep(session, findings)
        except HarnessError as error:
            self.warn(FindingWarning(visible(str(error))))

    def failure_text(self, findings: list[Finding], session: Session) -> str:
        """Return what a failed test prints."""
        sources = Sources(roots=session.sources)
        return "\n".join(render(finding, sources).plain for finding in findings)

    @property
    def fail_on(self) -> Severity:
        """The lowest severity that fails a test."""
        return Severity(self.config.option.harness_fail_on)

    @property
    def known_issues(self) -> KnownIssues:
        return read_known_issues(self.config.rootpath / FILE, date.today())  # noqa: DTZ011 - dates of people

    @property
    def engine(self) -> EngineTraits:
        return engine_for(self.config)

    @property
    def settings(self) -> Settings:
        return self.config.stash[SETTINGS]

    @property
    def libraries(self) -> tuple[str, ...]:
        """What `--harness-with` names, or else the libraries of the project's settings."""
        named = tuple(map(libraries.absolute_path, self.config.option.harness_with))
        return named or read_project_settings(self.config.rootpath).libraries

    def sanitizer(self) -> SanitizerChoice | None:
        """Return the sanitizer that `--harness-sanitizer` names."""
        accepts = self.config.rootpath / ACCEPTS
        return sanitizer_for(self.config.option.harness_sanitizer, self.engine, accepts, self.settings)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the failure as the harness prints it.  Only a bug of the harness has a traceback."""
        match excinfo.value:
            case Failed():
                return visible(str(excinfo.value))
            case HarnessError():
                return visible(in_pytest_options(str(excinfo.value)))
            case _:
                return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return file, line (counted from 0), and heading of the failure."""
        return self.path, 0, self.name


class SearchItem(HarnessItem):
    """New cases of one op on one device."""

    def __init__(self, *, op: Op, ops: tuple[Op, ...], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.op = op
        self.ops = ops
        """All ops of the suite."""

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where the op is declared."""
        return self.path, unwrap(self.op.call).__code__.co_firstlineno - 1, self.name

    def runtest(self) -> None:
        """Search and triage.  Fail if anything was found, or nothing could be checked."""
        searches = searches_of(self.config)
        with searches.interruptible():
            session, statistics = self._search()
            findings = searches.findings(session, (self.op, self.device), statistics)
        issues = self.known_issues
        searched = replace(session.options, ops=(self.op,), devices=(self.device,))
        report = report_of(searched, statistics, findings, interrupted=False, issues=issues)
        lines = statistics.line_coverage.rows(Sources(roots=session.sources).short)
        report = replace(report, kernel_lines=lines, gpu_wait_share=session.gpu_wait_share)
        shard_reports.record(self, searched, report)
        self.add_report_section("call", "kernel-harness", visible("\n".join(summary(report))))
        self.user_properties += [("searched_device", self.device.slug), ("search_seed", str(report.seed))]
        self.user_properties += run_summary.properties(session, report, why_virtual(self.config))
        failing = [finding for finding in report.findings if counts(finding, self.fail_on)]
        self.check(report.findings, session, failing, report.known_findings)
        if report.suite_errors:
            raise SuiteError("\n".join(report.suite_errors))
        if report.unchecked_ops:  # silence is no success, nor is a case without a definition
            raise Failed("\n".join(summary(report)))

    def setup(self) -> None:
        """Skip if the op's library is missing but some other op's is there.

        So `pytest suites --harness-with …` runs what it can.  If every library is missing, each test fails.
        """
        searches = (item for item in self.session.items if isinstance(item, SearchItem))
        if self.missing_libraries and not all(item.missing_libraries for item in searches):
            is_public = is_shipped(self.op.suite, project_of(Path.cwd()))
            remedy = in_pytest_options(libraries.remedy(self.missing_libraries, is_public=is_public))
            names = ", ".join(map(libraries.name_of, self.missing_libraries))
            pytest.skip(f"{names} is not installed: {remedy}")

    @cached_property
    def missing_libraries(self) -> tuple[str, ...]:
        """The distributions that the op requires and that are missing.  The test itself reports a wrong spec."""
        try:
            return libraries.lacking(self.op.requires, self.libraries)
        except HarnessError:
            return ()

    def _search(self) -> tuple[Session, CampaignStatistics]:
        # The suites of one library share processes.  If one of them cannot be loaded, each gets its own.
        searches = searches_of(self.config)
        try:
            session = searches.session(self.options)
            return session, searches.search(session, (self.op, self.device), self._following())
        except (SuiteError, LibraryError):
            if len(self.options.suites) == 1:
                raise
        self.session.stash[SUITES_APART] = True
        return self._search()

    def _following(self) -> Iterator[SearchTarget]:
        """Yield the next searches of this process that use the same session, and this device or the next one."""
        items, devices = self.session.items, {self.device}
        for index in gpu_workers.next_tests(self.config, items.index(self), len(items)):
            match items[index]:
                case SearchItem(options=self.options, device=device, op=op) if len({*devices, device}) <= DEVICES:
                    devices.add(device)
                    yield op, device
                case _:
                    pass

    @property
    def options(self) -> Options:
        """The options of the session: for all suites of the same library, or for this suite alone."""
        return self._options_of_suite if SUITES_APART in self.session.stash else self._options_of_library

    @cached_property
    def _options_of_library(self) -> Options:
        return self._options(
            [
                item
                for item in self.session.items
                if type(item) is SearchItem and set(item.op.requires) == set(self.op.requires)
            ]
        )

    @cached_property
    def _options_of_suite(self) -> Options:
        return self._options([self])

    def _options(self, items: Sequence["SearchItem"]) -> Options:
        option = self.config.option
        plan = Plan(
            suites=tuple(dict.fromkeys(item.op.suite for item in items)),
            device=",".join(device.slug for device in devices_for(self.config)),
            sm=option.harness_sm,
            cases=option.harness_cases,
            seed=option.harness_seed,
            libraries=self.libraries,
            engine=str(self.engine),
            sanitizer=option.harness_sanitizer or "",
        )
        remember(plan.suites, plan.libraries)
        ops = tuple({op.id: op for item in items for op in item.ops}.values())
        accepts = self.config.rootpath / ACCEPTS
        return replace(
            options_of(plan, self.settings, project_of(Path.cwd()), ops=ops, accepts=accepts),
            processes=None if self.engine.is_hardware else self._cores,
            compilers=max(0, self._cores - 2),  # one process runs on the GPU, and this one checks results
            shows_output=option.capture == "no",
        )

    @property
    def _cores(self) -> int:
        """This process's share of the cores, under pytest-xdist."""
        return max(1, len(os.sched_getaffinity(0)) // self.settings.pytest_workers)


class RegressionItem(HarnessItem):
    """One case that failed once."""

    def __init__(self, *, recorded: Recorded, **kwargs: Any) -> None:
        super().__init__(device=recorded.case.device, **kwargs)
        self.recorded = recorded

    def runtest(self) -> None:
        """Run it in a fresh process.

        Fail if the recorded failure shows again or cannot be checked, or if the case has another error.
        """
        option = self.config.option
        refuse_foreign_code(self.recorded, option.harness_with, trusted=False)
        options = options_for(
            self.recorded,
            libraries=tuple(option.harness_with),
            engine=VIRTUAL if option.harness_engine == AUTO else self.engine,
            sanitizer=self.sanitizer(),
            settings=self.settings,
            shows_output=self.config.option.capture == "no",
        )
        session = searches_of(self.config).session(options)
        self.user_properties += run_summary.place_and_cases(session, 1)
        replayed = replay(self.recorded, session)
        failing = replayed.failures(self.fail_on)
        self.keep(failing, session)
        self.check(replayed.findings, session, failing)
        if replayed.status is ReplayStatus.NOT_CHECKED:
            raise Failed(str(replayed))


SEARCHES = pytest.StashKey[Searches]()
SUITES_APART = pytest.StashKey[bool]()
"""Set once the suites of one library could not be loaded together."""


def searches_of(config: pytest.Config) -> Searches:
    """Return the searches of this pytest process, which end with it."""
    if SEARCHES not in config.stash:
        config.stash[SEARCHES] = Searches(config)
        config.add_cleanup(config.stash[SEARCHES].close)
    return config.stash[SEARCHES]
