"""`harness repro`."""

import argparse
import sys
from pathlib import Path

from harness.cli.command import CLEAN, NOTHING_JUDGED, STORE, Parser, add_libraries
from harness.errors import UsageError, unknown
from harness.findings import store
from harness.findings.replay import Recorded, read
from harness.findings.repro.build import Form, Made, Reproducer, make

NAMES = {Form.ENTRY: "repro.py", Form.KERNEL: "repro-kernel.py"}


def repro(given: argparse.Namespace) -> int:
    """Write reproducers of a finding, and say of each whether a fresh process confirms it."""
    path = store.locate(given.finding, STORE)
    recorded = _chosen(read(path), given.number)
    output: Path | None = given.output
    forms = (Form.KERNEL,) if given.kernel else (Form.ENTRY,) if output else (Form.ENTRY, Form.KERNEL)
    made = make(recorded, tuple(given.libraries), forms, _tell)
    for file in made.files:
        target = output if output and len(made.files) == 1 else _place(path, recorded, file)
        _write(target, file)
    for reason in made.missing:
        print(f"{reason}")
    return CLEAN if _is_whole(made, forms) else NOTHING_JUDGED


def _is_whole(made: Made, forms: tuple[Form, ...]) -> bool:
    """Whether every file is confirmed, and the one that was named is among them; of both, one may be impossible."""
    written = {file.form for file in made.files}
    return not any(file.doubt for file in made.files) and (len(forms) > 1 or written == set(forms))


def _place(finding: Path, recorded: Recorded, file: Reproducer) -> Path:
    """Beside a stored finding, in its folder; otherwise here, named by the finding."""
    if STORE.resolve() in finding.resolve().parents and finding.parent.resolve() != STORE.resolve():
        return finding.with_name(NAMES[file.form])
    return Path(NAMES[file.form].replace("repro", f"repro-{recorded.id}", 1))


def _write(target: Path, file: Reproducer) -> None:
    try:
        target.write_text(file.text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from error
    lines = len(file.text.splitlines())
    what = f"NOT CONFIRMED: {file.doubt}" if file.doubt else "confirmed in a fresh process"
    print(f"{target}: {file.form}, {lines} lines, {what}")


def _chosen(recorded: tuple[Recorded, ...], wanted: str | None) -> Recorded:
    by_id = {one.id: one for one in reversed(recorded)}
    numbered = {str(number): one for number, one in enumerate(recorded, 1)}
    if wanted is not None:
        if wanted not in by_id | numbered:
            raise unknown("finding", wanted, [*by_id, *numbered])
        return (by_id | numbered)[wanted]
    if len(recorded) != 1:
        raise UsageError(f"the file holds {len(recorded)} findings: say which with --finding ({', '.join(by_id)})")
    return recorded[0]


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def add_options(parser: Parser) -> None:
    """The options of `harness repro`."""
    parser.add_argument("finding", metavar="FINDING", help="the id of a finding, or a finding or case as JSON")
    parser.add_argument("--finding", dest="number", metavar="N|ID", help="which finding of a report")
    parser.add_argument("--kernel", action="store_true", help="only the kernel at fault, without its library")
    parser.add_argument(
        "-o", dest="output", type=Path, metavar="FILE", help="where to (the entry-point form unless --kernel is given)"
    )
    add_libraries(parser)
