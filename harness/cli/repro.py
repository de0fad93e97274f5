"""`harness repro`."""

import argparse
from pathlib import Path

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_libraries
from harness.cli.finding_choice import add_finding, add_trust, locate, read_one_finding
from harness.cli.output import print_lines, print_progress
from harness.errors import UsageError
from harness.findings.recorded_cases import Recorded
from harness.findings.repro.build import Form, Reproducer, Reproducers, make
from harness.findings.store import is_stored
from harness.findings.trust import refuse_foreign_code
from harness.wording import counted

NAMES = {Form.ENTRY: "repro.py", Form.KERNEL: "repro-kernel.py"}


def run(options: argparse.Namespace) -> ExitStatus:
    """Write reproducers of a finding, and print of each if a fresh process confirms it."""
    path = locate(options.file)
    recorded = read_one_finding(path, options.finding)
    refuse_foreign_code(recorded, options.libraries, trusted=options.trust)
    output: Path | None = options.output
    forms = (Form.KERNEL,) if options.kernel else (Form.ENTRY,) if output else (Form.ENTRY, Form.KERNEL)
    reproducers = make(recorded, tuple(options.libraries), forms, print_progress, options.settings)
    for file in reproducers.files:
        target = output if output and len(reproducers.files) == 1 else _target(path, recorded, file)
        _write(target, file)
    for reason in reproducers.missing:
        print_lines((f"{reason}",))
    return ExitStatus.CLEAN if _is_whole(reproducers, forms) else ExitStatus.NOTHING_CHECKED


def _is_whole(reproducers: Reproducers, forms: tuple[Form, ...]) -> bool:
    """Return True if every file is confirmed and the requested form is there.

    If both forms were requested, one of them may be impossible.
    """
    written = {file.form for file in reproducers.files}
    return not any(file.problem for file in reproducers.files) and (len(forms) > 1 or written == set(forms))


def _target(finding: Path, recorded: Recorded, file: Reproducer) -> Path:
    """Return a path in the folder of a stored finding; for any other file, one in the working folder."""
    if is_stored(finding):
        return finding.with_name(NAMES[file.form])
    return Path(NAMES[file.form].replace("repro", f"repro-{recorded.id}", 1))


def _write(target: Path, file: Reproducer) -> None:
    try:
        target.write_text(file.text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from error
    lines = len(file.text.splitlines())
    result = f"NOT CONFIRMED: {file.problem}" if file.problem else "confirmed in a fresh process"
    print_lines((f"{target}: {file.form}, {counted(lines, 'line')}, {result}",))


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness repro 88892a72                     both forms, with the finding
  harness repro 88892a72 -o bug.py           a program that calls the library
  harness repro 88892a72 --kernel -o bug.py  the kernel alone, without library

exit status: 0 the files are written and confirmed; 2 usage or harness error; 3 a file is missing or not confirmed
"""
    add_finding(parser)
    add_trust(parser)
    parser.add_argument("--kernel", action="store_true", help="only the kernel at fault, without its library")
    parser.add_argument(
        "-o",
        dest="output",
        type=Path,
        metavar="FILE",
        help="write one file: the program that calls the library or, with --kernel, the kernel alone",
    )
    add_libraries(parser)
