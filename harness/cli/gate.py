"""`harness gate`."""

import argparse
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

from harness.changes.op_digests import SourcePlace, TouchedOp
from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import (
    add_device,
    add_engine,
    add_fail_on,
    add_fixed_seed,
    add_known,
    add_libraries,
    add_no_resident,
    add_suites,
    json_path,
    minutes,
    plan_of,
    positive,
)
from harness.cli.gate_outputs import GateOutputs, print_changes, print_result
from harness.cli.hypothesis_folder import use_hypothesis_folder
from harness.cli.search_output import print_notice
from harness.cli.search_run import SearchRun
from harness.documents.gate_report import GateReport, GateVerdict
from harness.errors import UsageError
from harness.extras import require
from harness.findings.bisection.worktrees import Repository
from harness.findings.known_issues import KnownIssues, read_known_issues
from harness.findings.regressions import regressions_of
from harness.findings.trust import remember
from harness.gate.base_replays import BaseReplays
from harness.gate.gate_verdict import judged
from harness.gate.working_copies import ChangedCode, WorkingCopy, base_of, changed_code, is_code, working_tree
from harness.model.op import Op
from harness.model.verdict import Severity
from harness.reports.finding_text import Sources
from harness.reports.gate_text import op_change
from harness.reports.interrupts import Interrupts
from harness.reports.summary import shows_too_little
from harness.search import USUAL_DEVICES
from harness.search.campaign_plan import TimeBudget
from harness.search.options import TRIAGE_SHARE, Options, options_of
from harness.search.session import Session
from harness.suite_files import SHIPPED, project_of
from harness.wording import counted

USUAL_MINUTES = 4.0
REPLAY_SHARE = 0.15
"""The part of the time that is left to replay findings at the base."""
LONGEST_REPLAYS_S = 60.0
LEAST_SEARCH_S = 5.0
"""A search has so much time even if the comparison of the working copies took all."""
FORGES = "GITHUB_ACTIONS"
"""The variable by which GitHub Actions says that it runs the command."""


def run(arguments: argparse.Namespace) -> ExitStatus:
    """Search what a change touches, and fail for findings that its base does not show."""
    gate = _Gate(arguments)
    gate.compare_and_search()
    print_result(gate.report, gate.sources)
    gate.outputs.write(gate.report, arguments.settings)
    return _status(gate.report)


class _Gate:
    """One gate, step by step."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._deadline = time.monotonic() + 60 * arguments.minutes
        self._arguments = arguments
        project = project_of(Path.cwd())
        arguments.suites = arguments.suites or [_usual_suites(project)]
        self._repository = Repository(project).at_top()
        self._commit = self._repository.branch_point(arguments.base)
        self.outputs = _outputs(arguments, project, self._repository.path)
        plan = plan_of(arguments)
        self._head = working_tree(self._repository.path, project, plan.libraries)
        plan = replace(plan, libraries=self._head.libraries)
        self._issues = _known_issues(arguments)
        self._options = options_of(plan, arguments.settings, project)
        remember(plan.suites, plan.libraries)
        self.sources = Sources()
        self.report = GateReport(
            verdict=GateVerdict.PASSED,
            base=arguments.base,
            commit=self._commit.hash,
            op_count=len(self._options.ops),
            changes=(),
        )

    def compare_and_search(self) -> None:
        """Find what the change touches, search it, and replay the findings at the base."""
        changed = self._repository.changed_files(self._commit)
        files = tuple(file for file in changed if is_code(file, self._repository.path))
        if not files:
            return
        with self._repository.checked_out(self._commit) as folder:
            base = base_of(self._head, folder, has_options=bool(self._arguments.libraries))
            code = self._changed_code(files, base)
            self.report = replace(
                self.report,
                changes=tuple(map(op_change, code.ops)),
                unreached=tuple(map(str, code.unreached)),
            )
            print_changes(self.report)
            if code.ops:
                self._search(base, {touched.op.id: touched for touched in code.ops})

    def _changed_code(self, files: Collection[str], base: WorkingCopy) -> ChangedCode:
        """Return what differs; a kept regression that is new or changed touches its op, too."""
        options = self._options
        code = changed_code(options.ops, files, base, self._head, options.settings.cache)
        known = {touched.op.id for touched in code.ops}
        kept = [each for each in self._kept(options.ops, files) if each.op.id not in known]
        return replace(code, ops=(*code.ops, *kept))

    def _kept(self, ops: tuple[Op, ...], files: Collection[str]) -> list[TouchedOp]:
        paths = {(self._repository.path / file).resolve(): file for file in files}
        changed = {
            regression.recorded.case.op: paths[regression.file.resolve()]
            for regression in regressions_of(self._options, self._arguments.suites, is_part=True)
            if regression.recorded is not None and regression.file.resolve() in paths
        }
        return [TouchedOp(op=op, places=(SourcePlace(file=changed[op.id]),)) for op in ops if op.id in changed]

    def _search(self, base: WorkingCopy, touched: Mapping[str, TouchedOp]) -> None:
        use_hypothesis_folder()
        options = self._options_of_search(tuple(each.op for each in touched.values()))
        regressions = regressions_of(options, self._arguments.suites, is_part=True)
        with Interrupts() as interrupts:
            with Session(options, print_notice) as session:
                search = SearchRun(session, interrupts, regressions=regressions)
                search.run()
                interrupts.end()
            report = search.report(self._issues)
        search.errors.raise_kept()
        self.sources = search.sources
        replays = BaseReplays(base=base, touched=touched, searched=options)
        if report.findings:
            print_notice(f"replaying {counted(len(report.findings), 'finding')} at {self._commit.short}")
        too_few = f"{counted(report.checked, 'case')} could be checked" if shows_too_little(report) else ""
        severity = Severity(self._arguments.fail_on)
        self.report = judged(self.report, report, too_few, severity, replays.answers)

    def _options_of_search(self, ops: tuple[Op, ...]) -> Options:
        total_s = 60 * self._arguments.minutes
        left_s = self._deadline - time.monotonic() - min(LONGEST_REPLAYS_S, REPLAY_SHARE * total_s)
        budget = TimeBudget(seconds=max(LEAST_SEARCH_S, left_s), triage_share=TRIAGE_SHARE, cases=self._arguments.cases)
        suites = tuple(suite for suite in self._options.suites if any(op.suite == suite for op in ops))
        return replace(self._options, ops=ops, suites=suites, budget=budget)


def _usual_suites(project: Path) -> str:
    if not (project / SHIPPED).is_dir():
        raise UsageError(f"name a suite: there is no folder {project / SHIPPED} (see harness gate --help)")
    return str(project / SHIPPED)


def _known_issues(arguments: argparse.Namespace) -> KnownIssues:
    return read_known_issues(arguments.known, date.today())  # noqa: DTZ011 - a date that people write has no zone


def _outputs(arguments: argparse.Namespace, project: Path, root: Path) -> GateOutputs:
    if arguments.reproducers:
        require("repro", "harness gate --reproducers")
    is_annotated = arguments.annotations
    if is_annotated is None:
        is_annotated = arguments.environment.get(FORGES) == "true"
    return GateOutputs(
        project=project,
        root=root.resolve(),
        markdown=json_path(arguments.markdown, "markdown"),
        sarif=json_path(arguments.sarif, "sarif"),
        json=json_path(arguments.json),
        reproducers=json_path(arguments.reproducers, "reproducers"),
        annotates=is_annotated,
    )


def _status(gate: GateReport) -> ExitStatus:
    match gate.verdict:
        case GateVerdict.PASSED:
            return ExitStatus.CLEAN
        case GateVerdict.FAILED:
            return ExitStatus.FINDINGS
        case GateVerdict.NOT_CHECKED if gate.campaign and gate.campaign.suite_errors:
            return ExitStatus.ERROR
        case GateVerdict.NOT_CHECKED if gate.campaign and gate.campaign.interrupted:
            return ExitStatus.INTERRUPTED
        case GateVerdict.NOT_CHECKED:
            return ExitStatus.NOTHING_CHECKED


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness gate --base origin/main
  harness gate --base origin/main suites/norm.py --minutes 2
  harness gate --base v1.2.0 --markdown comment.md --sarif gate.sarif

exit status: 0 no finding that the base does not show, 1 such a finding, 2 usage or harness error,
3 something that the change touches was not checked, 130 interrupted without findings
"""
    add_suites(parser, required=False)
    parser.add_argument(
        "--base",
        required=True,
        metavar="REF",
        help="compare the working tree with the commit at which it left this branch, tag or commit",
    )
    parser.add_argument(
        "--minutes",
        type=minutes,
        default=USUAL_MINUTES,
        metavar="M",
        help="minutes for everything but --reproducers (default: %(default)g)",
    )
    parser.add_rare("--cases", type=positive, metavar="N", help="end the search after so many cases")
    add_fixed_seed(parser)
    add_device(parser, USUAL_DEVICES)
    add_libraries(parser)
    parser.add_argument("--markdown", metavar="FILE", help="also write the result as a comment on a pull request")
    parser.add_argument("--sarif", metavar="FILE", help="also write the findings for code scanning")
    parser.add_argument("--json", metavar="FILE", help="also write the result as JSON")
    parser.add_argument(
        "--reproducers", metavar="FOLDER", help="also write each new finding as one Python file (extra: repro)"
    )
    parser.add_argument(
        "--annotations",
        action=argparse.BooleanOptionalAction,
        help="print new findings as workflow commands of GitHub Actions (default: if it runs the command)",
    )
    add_known(parser)
    add_fail_on(parser)
    add_engine(parser)
    add_no_resident(parser)
