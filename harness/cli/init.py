"""`harness init`."""

import argparse
import difflib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import positive
from harness.cli.finding_choice import locate, read_one_finding
from harness.cli.output import print_lines
from harness.drafts.ci_files import CiSystem
from harness.drafts.repository import SUITES, InitPlan, PlannedFile, overwritten, plan, plan_ci, plan_from_test, write
from harness.drafts.seen_calls import FOLDER, load
from harness.errors import UsageError
from harness.suite_files import project_of
from harness.wording import counted

VERBS = {
    (True, True): "would write",
    (True, False): "wrote",
    (False, True): "would change",
    (False, False): "changed",
}
"""By whether the file is new, and whether nothing is written."""


def run(options: argparse.Namespace) -> ExitStatus:
    """Write suite drafts, settings and a workflow, or show what would be written."""
    if options.test and options.targets:
        raise UsageError("--from drafts the suite of a test: leave TARGET out")
    if options.output and not options.test:
        raise UsageError("-o names the suite of a test: add --from TEST")
    if options.ci and (options.test or options.targets):
        raise UsageError("--ci writes files of a CI system alone: leave TARGET and --from out")
    if options.machines and not options.ci:
        raise UsageError("--machines shares the searches of a CI system: add --ci SYSTEM")
    root = Path.cwd() if options.test else project_of(Path.cwd())
    planned = _planned(root, options)
    existing = () if options.force or options.dry_run else overwritten(planned)
    if existing and options.test:
        names = ", ".join(map(str, existing))
        raise UsageError(f"{names} would be overwritten, so nothing is written: add --force, or --dry-run to compare")
    planned = replace(planned, files=tuple(file for file in planned.files if file.path not in existing))
    if options.dry_run:
        for file in planned.files:
            print_lines(_difference(file))
    else:
        write(root, planned)
    print_lines(f"left as it is: {path}: add --force to replace it, or --dry-run to compare" for path in existing)
    print_lines(_summary(root, planned, is_dry=options.dry_run))
    return ExitStatus.CLEAN


def _planned(root: Path, options: argparse.Namespace) -> InitPlan:
    if options.test:
        return _from_test(root, options)
    if options.ci:
        return plan_ci(root, CiSystem(options.ci), options.machines)
    return plan(root, options.targets, has_workflow=options.workflow)


def _from_test(root: Path, options: argparse.Namespace) -> InitPlan:
    test = options.test if "::" in options.test or options.test.endswith(".py") else _test_of_finding(options.test)
    return plan_from_test(root, load(test if "::" in test else os.path.normpath(test), FOLDER), options.output)


def _test_of_finding(name: str) -> str:
    """Return the test function that showed a finding of `harness run`."""
    recorded = read_one_finding(locate(name), None)
    if recorded.watched is None:
        raise UsageError(f"{name} is no finding of harness run: its suite is {recorded.case.op.rpartition(':')[0]}")
    return recorded.watched.test.partition("[")[0]


def _summary(root: Path, planned: InitPlan, *, is_dry: bool) -> Iterator[str]:
    """Yield a line for each file, and the next command."""
    drafts = dict(planned.suites)
    here = "" if root == Path.cwd() else f" in {root}"
    for file in planned.files:
        if not file.is_changed:
            yield f"left as it is: {file.path}{here}"
            continue
        verb = VERBS[file.before is None, is_dry]
        draft = drafts.get(file.path)
        count = f", {counted(len(draft.ops), 'op')}" if draft else ""
        calls = f" from {counted(planned.calls, 'call')}" if planned.calls else ""
        note = f": {file.note}" if file.note else ""
        yield f"{verb} {file.path}{here}{count}{calls}{note}"
    if not planned.suites:
        return
    libraries = "".join(f" --with {library}" for library in planned.libraries)
    yield f"next: harness fuzz {planned.suites[0][0].as_posix()}{libraries} --cases 30"


def _difference(file: PlannedFile) -> Iterator[str]:
    before = (file.before or "").splitlines()
    lines = difflib.unified_diff(before, file.text.splitlines(), f"a/{file.path}", f"b/{file.path}", lineterm="")
    return iter(list(lines))


def add_options(parser: Parser) -> None:
    parser.epilog = """\
Without a target, drafts are made for every file that defines a kernel.  Sources are read, never imported.
No file is changed without being named, and none is overwritten without --force.

--from drafts one suite from what a test called under harness run.  Sizes that always agree become one dim.
The reference is what the test compares with, if its source says so; otherwise it is marked as to be written.

examples:
  harness init                          all kernels of this repository
  harness init my_kernels/norm.py       the functions or kernels of one file
  harness init my_kernels.norm --dry-run   show the changes, write nothing
  harness init my_kernels.norm:rms_norm    one function of a module
  harness run -- pytest tests/test_norm.py
  harness init --from tests/test_norm.py::test_rms_norm   what the test called
  harness init --from b8773cc1          the test of a finding
  harness init --ci github              a gate for changes, a night on GPUs
  harness init --ci slurm --machines 8  a night that eight GPUs share

exit status: 0 the files are written; 2 usage error, and nothing is written
"""
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="a file, or a module as my_kernels.norm, perhaps with :function (default: search)",
    )
    parser.add_argument(
        "--from",
        dest="test",
        metavar="TEST|ID",
        help="a test as pytest names it, a script, or the id of a finding of harness run",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help=f"the suite of --from (default: {SUITES}/NAME.py, by the name of the test)",
    )
    parser.add_argument(
        "--ci",
        choices=tuple(CiSystem),
        metavar="SYSTEM",
        help=f"write the files of a CI system alone: {', '.join(CiSystem)}",
    )
    parser.add_argument(
        "--machines",
        type=positive,
        metavar="N",
        help="with --ci: how many machines share a search on GPUs (default: as in the template)",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the changes as a diff, and write nothing")
    parser.add_argument("--force", action="store_true", help="overwrite files that exist")
    parser.add_argument(
        "--no-workflow", dest="workflow", action="store_false", help="write no workflow for GitHub Actions"
    )
