"""`harness morning`."""

import argparse
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import existing
from harness.cli.output import print_lines, print_progress, write_text
from harness.documents import files
from harness.documents.campaign import KernelLines
from harness.errors import UsageError
from harness.extras import require
from harness.findings.known_issues import read_known_issues
from harness.model.merging import merged_rows
from harness.night import night_memory
from harness.night.bug_history import history_of
from harness.night.night_settings import read_night_places
from harness.reports.lcov import lcov
from harness.reports.morning import UnexecutedLines, morning_contents, read_stored
from harness.reports.morning_document import morning_document
from harness.reports.morning_markdown import morning_markdown
from harness.reports.morning_text import morning_text
from harness.suite_files import project_of
from harness.wording import visible

STDOUT = "-"


def run(options: argparse.Namespace) -> ExitStatus:
    """Show what nights know, after their memories are merged."""
    places = read_night_places(project_of(Path.cwd()))
    folders = options.memories or [places.memory]
    for folder in folders[1:] or folders:  # the first of several may be new
        if not folder.is_dir():
            raise UsageError(f"there is no memory {folder}: run harness night first, or name its folder")
    night_memory.merge(folders[0], folders[1:])
    memory = night_memory.read(folders[0])
    issues = read_known_issues(options.known or places.known, date.today())  # noqa: DTZ011 - a date of people
    history = history_of(memory)
    kernel_lines = merged_rows(row for unit in memory.units.values() for row in unit.kernel_lines)
    contents = morning_contents(
        history,
        issues,
        stored=read_stored(history),
        units=memory.units,
        unexecuted=_unexecuted(kernel_lines),
    )
    if options.output:
        require("report", "the page of harness morning")
        from harness.reports.html.morning_page import write_morning_page  # noqa: PLC0415 - it needs the extra

        print_progress(str(write_morning_page(contents, options.output)))
    for name, text in (
        (options.markdown, lambda: morning_markdown(contents, options.address)),
        (options.json, lambda: files.dumps(morning_document(contents, options.address))),
        (options.lcov, lambda: lcov(kernel_lines)),
    ):
        if name == STDOUT:
            sys.stdout.write(visible(text()))
        elif name:
            write_text(Path(name), text())
    if STDOUT not in {options.markdown, options.json, options.lcov}:
        print_lines(morning_text(contents))
    totals = contents.totals
    return ExitStatus.ERROR if totals is not None and totals.missing else ExitStatus.CLEAN


def _unexecuted(rows: Sequence[KernelLines]) -> list[UnexecutedLines]:
    missed = (UnexecutedLines(file=row.file, kernel=row.function, lines=row.missed) for row in rows)
    return sorted((row for row in missed if row.lines), key=lambda row: (-len(row.lines), row.file, row.kernel))


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness morning                          what is new, there and gone
  harness morning -o morning               the page: morning/index.html
  harness morning nights shard-*/nights    of machines that shared a night
  harness morning --markdown sum.md --json hook.json   for CI and chat

Memories after the first are merged into the first, and stay as they are.

exit status: 0 whatever the nights saw, 2 usage error, or a part of the last night is missing
"""
    parser.add_argument(
        "memories", nargs="*", type=Path, metavar="FOLDER", help="memories of nights (default: that of the project)"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write the page there")
    parser.add_argument("--markdown", metavar="FILE", help="a summary for the page of a job; - for standard output")
    parser.add_argument("--json", metavar="FILE", help="a summary for programs; - for standard output")
    parser.add_argument("--lcov", metavar="FILE", help="executed lines of kernels as an LCOV tracefile")
    parser.add_argument("--address", default="", metavar="URL", help="where the page is published, for links to it")
    parser.add_rare("--known", type=existing, metavar="FILE", help="findings that are accepted for now")
