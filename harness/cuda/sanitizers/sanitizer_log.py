"""What compute-sanitizer prints while its processes still run: tells at once whether a case was reported.

The XML comes only when the whole tree of processes has ended, so the text is what wakes us, and what is left where no
XML was written.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness.cuda.sanitizers.sanitizer_records import grouped, kernel_name, what_of
from harness.model.compute_sanitizer_report import Level, SanitizerRecord, Touch
from harness.model.ending import Source

PREFIX = "========="
WITNESS = "harness_witness"
"""How the names of kernels begin that make a mistake on purpose."""
TITLE = re.compile(rf"^{PREFIX} (?=\S)(.*)$", re.MULTILINE)
"""What belongs to a record is indented by more."""
NOTICE = re.compile(
    r"COMPUTE-SANITIZER|(ERROR|LEAK|RACECHECK) SUMMARY|Target application|Error: (process|couldn't)|Tracking kernels|"
    r"Launch #|Warning: (?!Race|\()|.*not supported by compute-sanitizer"
)
"""Titles that report nothing of a kernel."""
TROUBLE = re.compile(
    r"Error: (?!Race|Potential|\()|Target application|Internal|Unable|Failed|.*not supported", re.IGNORECASE
)
AT = re.compile(
    r"(?:(Read|Write|Atomic) (?:access|Thread \((\d+),(\d+),(\d+)\)) )?"
    r"\bat ([^\n]+?)(?:\([^()\n]*\))?[+:]0x[0-9a-f]+(?: in ([^\s:]+):(\d+))?"
)
BY = re.compile(r"by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")
BOTH = 6
"""Numbers of a thread and a block."""
LOST = re.compile(r"SUMMARY: (\d+) errors? (?:was|were) not printed")


class LiveLog:
    """The file that the tool prints to, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = 0

    def begin(self) -> None:
        """What was printed so far is of no case."""
        self._before = self._count()

    def reported(self) -> bool:
        """Whether anything was reported of a case."""
        return self._count() > self._before

    def testified(self) -> bool:
        """Whether the planted mistake was reported."""
        return any(WITNESS in report for report in reports(self.text()))

    def _count(self) -> int:
        return sum(WITNESS not in report for report in reports(self.text()))

    def text(self) -> str:
        """All of it, in whole lines."""
        text = self._path.read_text(errors="replace") if self._path.exists() else ""
        return text[: text.rfind("\n") + 1]


def reports(text: str) -> Iterator[str]:
    """The part of each report, from its title on."""
    titles = [*TITLE.finditer(text)]
    ends = [*(title.start() for title in titles), len(text)][1:]
    for title, end in zip(titles, ends, strict=True):
        if not NOTICE.match(title.group(1)):
            yield text[title.start() : end]


def lost(text: str) -> int:
    """How many reports were not kept, as the last lines say."""
    return sum(int(count) for count in LOST.findall(text))


def records_printed(text: str) -> tuple[SanitizerRecord, ...]:
    """The records as far as their printed lines tell: where no XML was written."""
    return grouped(_record(report) for report in reports(text) if WITNESS not in report)


def complaints(text: str) -> str:
    """What the tool says of itself and of the process that it started, on one line; empty where nothing is wrong."""
    lines = (title.group(1) for title in TITLE.finditer(text) if TROUBLE.match(title.group(1)))
    return "; ".join(dict.fromkeys(lines))


def _record(report: str) -> SanitizerRecord:
    title = report.partition("\n")[0].removeprefix(PREFIX).strip()
    by = BY.search(report)
    numbers = tuple(map(int, by.groups())) if by else ()
    touches = tuple(_touch(where) for where in AT.finditer(report)) or (Touch(direction="", kernel=""),)
    if len(numbers) == BOTH:
        touches = (replace(touches[0], thread=numbers[:3], program=numbers[3:]), *touches[1:])
    return SanitizerRecord(
        kind="printed",
        text=title,
        what=what_of(title),
        level=Level.WARNING if title.upper().startswith("WARNING") else Level.ERROR,
        at=touches[0],
        others=touches[1:],
    )


def _touch(where: re.Match[str]) -> Touch:
    direction, x, y, z, function, file, line = where.groups()
    return Touch(
        direction=(direction or "").lower(),
        kernel=kernel_name(function),
        source=Source(file=file, line=int(line)) if file else None,
        thread=(int(x), int(y), int(z)) if x else None,
    )
