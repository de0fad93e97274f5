"""`harness init`."""

import argparse
import difflib
from collections.abc import Iterator
from pathlib import Path

from harness.cli.command import ExitStatus, Parser
from harness.cli.output import print_lines
from harness.drafts.repository import InitPlan, PlannedFile, overwritten, plan, write
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


def run(given: argparse.Namespace) -> ExitStatus:
    """Write suite drafts, settings and a workflow, or show what would be written."""
    root = project_of(Path.cwd())
    planned = plan(root, given.targets, has_workflow=given.workflow)
    existing = overwritten(planned)
    if existing and not given.force and not given.dry_run:
        names = ", ".join(map(str, existing))
        raise UsageError(f"{names} would be overwritten, so nothing is written: add --force, or --dry-run to compare")
    if given.dry_run:
        for file in planned.files:
            print_lines(_difference(file))
    else:
        write(root, planned)
    print_lines(_told(root, planned, is_dry=given.dry_run))
    return ExitStatus.CLEAN


def _told(root: Path, planned: InitPlan, *, is_dry: bool) -> Iterator[str]:
    """Yield a line for each file, and the next command."""
    ops = {path: draft.ops for path, draft in planned.suites}
    here = "" if root == Path.cwd() else f" in {root}"
    for file in planned.files:
        if not file.is_changed:
            yield f"left as it is: {file.path}{here}"
            continue
        verb = VERBS[file.before is None, is_dry]
        count = f", {counted(len(ops[file.path]), 'op')}" if file.path in ops else ""
        note = f": {file.note}" if file.note else ""
        yield f"{verb} {file.path}{here}{count}{note}"
    yield f"next: harness fuzz {planned.suites[0][0].as_posix()} --cases 30"


def _difference(file: PlannedFile) -> Iterator[str]:
    before = (file.before or "").splitlines()
    lines = difflib.unified_diff(before, file.text.splitlines(), f"a/{file.path}", f"b/{file.path}", lineterm="")
    return iter(list(lines))


def add_options(parser: Parser) -> None:
    parser.epilog = """\
Without a target, drafts are made for every file that defines a kernel.  Sources are read, never imported.
No file is changed without being named, and none is overwritten without --force.

examples:
  harness init                          all kernels of this repository
  harness init my_kernels/norm.py       the functions or kernels of one file
  harness init my_kernels.norm --dry-run   show the changes, write nothing

exit status: 0 the files are written; 2 usage error, and nothing is written
"""
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help="a Python file, or a module as my_kernels.norm (default: search)"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the changes as a diff, and write nothing")
    parser.add_argument("--force", action="store_true", help="overwrite files that exist")
    parser.add_argument(
        "--no-workflow", dest="workflow", action="store_false", help="write no workflow for GitHub Actions"
    )
