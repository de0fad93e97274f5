"""`harness suite-from`."""

import argparse
import os
import re
from pathlib import Path

from harness.cli.command import ExitStatus, Parser
from harness.cli.finding_choice import locate, read_one_finding
from harness.cli.output import print_lines
from harness.drafts.called_draft import draft_of_calls
from harness.drafts.repository import SUITES
from harness.drafts.seen_calls import FOLDER, load
from harness.errors import UsageError, store_error
from harness.wording import counted


def run(given: argparse.Namespace) -> ExitStatus:
    """Write the draft of a suite from what a test called."""
    test = given.test if "::" in given.test or given.test.endswith(".py") else _test_of_finding(given.test)
    seen = load(os.path.normpath(test) if "::" not in test else test, FOLDER)
    name = re.sub(r"\W", "_", seen.test.rpartition("::")[2].removesuffix(".py")).removeprefix("test_")
    path: Path = given.output or Path(SUITES, f"{name}.py")
    if path.exists() and not given.force:
        raise UsageError(f"{path} exists: add --force to replace it, or -o FILE to write another file")
    draft = draft_of_calls(seen, Path(seen.test.partition("::")[0]).resolve(), path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(draft.text, encoding="utf-8")
    except OSError as error:
        raise store_error(error, path) from None
    missing = ", ".join(f"{op} (line {line})" for op, line in draft.undefined)
    note = f"write the definition of {missing}" if missing else "check what is guessed"
    options = "".join(f" --with {library}" for library in seen.libraries)
    print_lines(
        (
            f"wrote {path}, {counted(len(draft.ops), 'op')} from {counted(len(seen.calls), 'call')}: {note}",
            f"next: harness fuzz {path.as_posix()}{options} --cases 30",
        )
    )
    return ExitStatus.CLEAN


def _test_of_finding(name: str) -> str:
    """Return the test function that showed a finding of `harness run`."""
    recorded = read_one_finding(locate(name), None)
    if recorded.watched is None:
        raise UsageError(f"{name} is no finding of harness run: its suite is {recorded.case.op.rpartition(':')[0]}")
    return recorded.watched.test.partition("[")[0]


def add_options(parser: Parser) -> None:
    parser.epilog = """\
Run the test first, by harness run.  Sizes that always agree become one dim.  The reference is what the test
compares with, if its source says so; otherwise it is marked as to be written.

examples:
  harness run -- pytest tests/test_norm.py
  harness suite-from tests/test_norm.py::test_rms_norm   from all its parameters
  harness suite-from b8773cc1                            the test of a finding
  harness fuzz suites/rms_norm.py

exit status: 0 the suite is written; 2 usage error, and nothing is written
"""
    parser.add_argument(
        "test", metavar="TEST|ID", help="a test as pytest names it, a script, or the id of a finding of harness run"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help=f"the suite (default: {SUITES}/NAME.py, by the name of the test)",
    )
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
