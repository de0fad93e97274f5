"""The tests that suites become: one for each op and device, and one for each case of a regression file."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from harness import libraries
from harness.cuda.sanitizers.suppressions import FILE as ACCEPTS
from harness.devices import catalogue
from harness.errors import HarnessError, LibraryError, SuiteError
from harness.findings import store
from harness.findings.campaign_report import Report, counts, report_of
from harness.findings.known_issues import FILE, Known, read_known_issues
from harness.findings.replay import Recorded, read
from harness.findings.rerun import options_for, replay
from harness.model.device import DeviceProfile
from harness.model.finding import Finding
from harness.model.op import Op
from harness.model.verdict import Outcome, Severity
from harness.pytest_plugin import AUTO, devices_for, gpu_workers, run_summary
from harness.pytest_plugin.gpu_workers import engine_for, why_virtual
from harness.pytest_plugin.sessions import Searches, Sought
from harness.reports.finding_text import Sources, quoted, render
from harness.reports.junit import properties
from harness.reports.summary import summary
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.options import CUDA, VIRTUAL, Options, Watching, is_suite, load_ops, sanitizing_for
from harness.search.plan import CaseBudget
from harness.search.session import FOLDER, Session, prepared

__all__ = ["RegressionFile", "SuiteFile", "is_suite"]


class FindingWarning(pytest.PytestWarning):
    """A finding below the severity that fails a test."""


class Failed(Exception):
    """A test's failure, told in the harness's own words."""


class SuiteFile(pytest.File):
    """One suite."""

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each op and device; none of a suite that skips itself."""
        suite = _as_given(self.path)
        try:
            ops = load_ops((suite,), ())
        except HarnessError as error:
            if isinstance(error.__cause__, pytest.skip.Exception):
                raise error.__cause__ from None
            raise self.CollectError(str(error)) from None
        for device in devices_for(self.config):  # those of one device follow one another: its processes are there
            for op in ops:
                name = f"{op.name}[{device.slug}]"
                yield SearchItem.from_parent(self, name=name, op=op, ops=ops, device=device)


class RegressionFile(pytest.File):
    """One replay file."""

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each case in it."""
        try:
            cases = read(self.path)
        except HarnessError as error:
            raise self.CollectError(str(error)) from None
        for recorded in cases:
            yield RegressionItem.from_parent(self, name=f"{recorded.case.op_name}[{recorded.id}]", recorded=recorded)


class HarnessItem(pytest.Item):
    """What both kinds of test share: a session of the harness, marks, and how a failure is told."""

    def __init__(self, *, device: DeviceProfile, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.device = device
        for mark in catalogue.marks(device):
            self.add_marker(mark)

    def judge(self, findings: tuple[Finding, ...], session: Session, known: tuple[Known, ...] = ()) -> None:
        """Fail for findings that count, warn for the others."""
        self.user_properties += [(one.name, one.value) for finding in findings for one in properties(finding)]
        sources = Sources(roots=session.sources)
        fail_on = Severity(self.config.option.harness_fail_on)
        links = {one.finding: f" (known: {one.issue.link})" for one in known}
        bad = [finding for finding in findings if counts(finding, fail_on) and finding.id not in links]
        for finding in findings:
            if finding not in bad:
                link = links.get(finding.id, "")
                self.warn(FindingWarning(f"{finding.fail.signature}: {finding.fail.message}{link}"))
        if bad:
            raise Failed("\n".join(render(finding, sources).plain for finding in bad))

    @property
    def engine(self) -> str:
        """The factory of what `--harness-engine` asks for."""
        return engine_for(self.config)

    def sanitizing(self) -> Watching | None:
        """What `--harness-sanitizer` asks for."""
        option = self.config.option
        return sanitizing_for(option.harness_sanitizer, self.engine, self.config.rootpath / ACCEPTS)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The failure as the harness prints it; a traceback only for what nobody foresaw."""
        match excinfo.value:
            case Failed() | HarnessError():
                return str(excinfo.value)
            case _:
                return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """File, line counted from 0, and heading of the failure."""
        return self.path, 0, self.name


class SearchItem(HarnessItem):
    """New cases of one op on one device."""

    def __init__(self, *, op: Op, ops: tuple[Op, ...], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.op = op
        self.ops = ops

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the op is declared."""
        return self.path, self.op.call.__code__.co_firstlineno - 1, self.name

    def runtest(self) -> None:
        """Search, triage, and fail if anything was found or nothing could be judged."""
        session, tally = self._search()
        findings = _searches(self.config).findings(session, tally)
        issues = read_known_issues(self.config.rootpath / FILE, date.today())  # noqa: DTZ011 - dates of people
        report = report_of(session.options, tally, findings, interrupted=False, issues=issues)
        report = replace(report, waiting=session.waiting)
        sources = Sources(roots=session.sources)
        store.save(
            quoted(findings, sources),
            prepared(FOLDER) / "findings",
            lambda one: render(one, sources).plain,
            report.versions,
        )
        report = replace(report, devices=(str(self.device),))
        self.add_report_section("call", "kernel-harness", "\n".join(summary(report)))
        self.user_properties += [("searched_device", self.device.slug), ("search_seed", str(report.seed))]
        self.user_properties += run_summary.properties(session, report, why_virtual(self.config))
        self.judge(report.findings, session, report.known)
        _refuse_silence(report)

    def setup(self) -> None:
        """Skip where the op's library is not there, but that of others is: `pytest suites --with …` runs what it can.

        Where no op has its library, each test fails and says why.
        """
        searches = (item for item in self.session.items if isinstance(item, SearchItem))
        if self.lacking and not all(item.lacking for item in searches):
            wanted = " ".join(f"--with {name}" for name in self.lacking)
            pytest.skip(f"{', '.join(self.lacking)} is not installed: add {wanted}")

    @cached_property
    def lacking(self) -> tuple[str, ...]:
        """The distributions that the op requires and that are not there; a wrong `--with` is told by the test."""
        try:
            return libraries.lacking(self.op.requires, self.config.option.harness_with)
        except HarnessError:
            return ()

    def _search(self) -> tuple[Session, CampaignStatistics]:
        """The suites of one library share processes; where one of them cannot be loaded, each has its own."""
        searches = _searches(self.config)
        session = searches.session(self.options)
        try:
            return session, searches.search(session, (self.op, self.device), self._then())
        except (SuiteError, LibraryError):
            if len(self.options.suites) == 1:
                raise
        self.session.stash[APART] = True
        return self._search()

    def _then(self) -> Iterator[Sought]:
        """What this process searches for next on the same device, in the same session."""
        items = self.session.items
        for index in gpu_workers.coming(self.config, items.index(self), len(items)):
            match items[index]:
                case SearchItem(options=self.options, device=self.device, op=op):
                    yield op, self.device
                case _:
                    pass

    @property
    def options(self) -> Options:
        """What the command line asks for, of all suites of the same library, or of this suite alone."""
        return self._of_suite if APART in self.session.stash else self._of_library

    @cached_property
    def _of_library(self) -> Options:
        return self._options(
            [
                item
                for item in self.session.items
                if isinstance(item, SearchItem) and set(item.op.requires) == set(self.op.requires)
            ]
        )

    @cached_property
    def _of_suite(self) -> Options:
        return self._options([self])

    def _options(self, items: Sequence["SearchItem"]) -> Options:
        option = self.config.option
        return Options(
            suites=tuple(dict.fromkeys(item.op.suite for item in items)),
            ops=tuple({op.id: op for item in items for op in item.ops}.values()),
            devices=devices_for(self.config),
            budget=CaseBudget(cases=option.harness_cases),
            seed=option.harness_seed,
            processes=None if self.engine == CUDA else _processes(),
            compilers=max(0, _processes() - 2),  # one process is on the GPU, and this one judges
            fixed_sm_count=option.harness_sm is not None,
            libraries=tuple(option.harness_with),
            engine=self.engine,
            sanitizing=self.sanitizing(),
        )


class RegressionItem(HarnessItem):
    """One case that failed once."""

    def __init__(self, *, recorded: Recorded, **kwargs: Any) -> None:
        super().__init__(device=recorded.case.device, **kwargs)
        self.recorded = recorded

    def runtest(self) -> None:
        """Run it in a fresh process, and fail if it fails or cannot be judged."""
        option = self.config.option
        options = options_for(
            self.recorded,
            libraries=tuple(option.harness_with),
            engine=VIRTUAL if option.harness_engine == AUTO else self.engine,
            sanitizing=self.sanitizing(),
        )
        session = _searches(self.config).session(options)
        self.user_properties += run_summary.place_and_cases(session, 1)
        replayed = replay(self.recorded, session)
        self.judge(replayed.findings, session)
        if replayed.outcome is Outcome.ABSTAIN:
            raise Failed(str(replayed))


SEARCHES = pytest.StashKey[Searches]()
APART = pytest.StashKey[bool]()
"""There where suites of one library cannot be loaded together."""


def _searches(config: pytest.Config) -> Searches:
    """Those of this pytest process, which end with it."""
    if SEARCHES not in config.stash:
        config.stash[SEARCHES] = Searches(config)
        config.add_cleanup(config.stash[SEARCHES].close)
    return config.stash[SEARCHES]


def _refuse_silence(report: Report) -> None:
    if not report.judged:
        raise Failed("\n".join(summary(report)))


def _processes() -> int:
    """This process's share of the cores, under pytest-xdist."""
    cores = len(os.sched_getaffinity(0))
    return max(1, cores // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _as_given(path: Path) -> str:
    """The file as a person would type it, so that cases of pytest and of the command line name the same op."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
