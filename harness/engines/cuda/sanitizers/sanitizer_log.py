"""Reads what compute-sanitizer prints while its processes run.

The tool writes its XML only when its whole process tree has ended.  The printed text shows a report at once, and is all
there is if no XML was written.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness.engines.cuda.sanitizers.sanitizer_records import describe_mistake, grouped, kernel_name
from harness.model.compute_sanitizer_report import Level, SanitizerRecord, Touch
from harness.model.ending import Source

LINE_PREFIX = "========="
SELF_TEST_KERNEL = "harness_self_test"
"""The prefix of the names of self-test kernels."""
TITLE = re.compile(rf"^{LINE_PREFIX} (?=\S)(.*)$", re.MULTILINE)
"""The first line of a record; its other lines are indented more."""
NO_REPORT = re.compile(
    r"COMPUTE-SANITIZER|(ERROR|LEAK|RACECHECK) SUMMARY|Target application|Error: (process|couldn't)|Tracking kernels|"
    r"Launch #|Warning: (?!Race|\()|.*not supported by compute-sanitizer"
)
"""Titles that report nothing about a kernel."""
TOOL_ERROR = re.compile(
    r"Error: (?!Race|Potential|\()|Target application|Internal|Unable|Failed|.*not supported", re.IGNORECASE
)
ACCESS = re.compile(
    r"(?:(Read|Write|Atomic) (?:access|Thread \((\d+),(\d+),(\d+)\)) )?"
    r"\bat ([^\n]+?)(?:\([^()\n]*\))?[+:]0x[0-9a-f]+(?: in ([^\s:]+):(\d+))?"
)
THREAD = re.compile(r"by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")
ERROR = re.compile(r"(?:Address|Access (?:at|to)) 0x[0-9a-f]+ is (out of bounds|misaligned)")
DIRECTION = re.compile(r"\b(?:read|write|atomic)\b")
THREAD_AND_BLOCK = 6
"""The number of coordinates of a thread and its block."""
NOT_PRINTED = re.compile(r"SUMMARY: (\d+) errors? (?:was|were) not printed")


class LiveLog:
    """The tool's growing log file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reports_before_case = 0

    def begin(self) -> None:
        """Mark the start of a case: earlier reports do not belong to it."""
        self._reports_before_case = self._count()

    def reported(self) -> bool:
        """Return True if anything was reported since `begin`, except for self-tests."""
        return self._count() > self._reports_before_case

    def self_test_reported(self) -> bool:
        """Return True if the mistake of a self-test was reported."""
        return any(SELF_TEST_KERNEL in report for report in reports(self.text()))

    def _count(self) -> int:
        return sum(SELF_TEST_KERNEL not in report for report in reports(self.text()))

    def text(self) -> str:
        """Return the complete lines of the log."""
        text = self._path.read_text(errors="replace") if self._path.exists() else ""
        return text[: text.rfind("\n") + 1]


def reports(text: str) -> Iterator[str]:
    """Yield the text of each report, from its title on."""
    titles = [*TITLE.finditer(text)]
    ends = [*(title.start() for title in titles), len(text)][1:]
    for title, end in zip(titles, ends, strict=True):
        if not NO_REPORT.match(title.group(1)):
            yield text[title.start() : end]


def count_not_printed(text: str) -> int:
    """Return how many reports the tool left out, according to its summary."""
    return sum(int(count) for count in NOT_PRINTED.findall(text))


def records_printed(text: str) -> tuple[SanitizerRecord, ...]:
    """Return the records of a log, for a run that wrote no XML."""
    return grouped(_record(report) for report in reports(text) if SELF_TEST_KERNEL not in report)


def tool_errors(text: str) -> str:
    """Return the errors of the tool itself, or of the process that it started, on one line; empty if there are none."""
    lines = (title.group(1) for title in TITLE.finditer(text) if TOOL_ERROR.match(title.group(1)))
    return "; ".join(dict.fromkeys(lines))


def _record(report: str) -> SanitizerRecord:
    title = report.partition("\n")[0].removeprefix(LINE_PREFIX).strip()
    by = THREAD.search(report)
    numbers = tuple(map(int, by.groups())) if by else ()
    error = ERROR.search(report)
    direction = DIRECTION.search(title)
    touches = tuple(_touch(access) for access in ACCESS.finditer(report)) or (Touch(direction="", kernel=""),)
    if len(numbers) == THREAD_AND_BLOCK:
        touches = (replace(touches[0], thread=numbers[:3], program=numbers[3:]), *touches[1:])
    return SanitizerRecord(
        kind="printed",
        text=title,
        what=describe_mistake(title, direction[0] if direction else "", error[1] if error else ""),
        level=Level.WARNING if title.upper().startswith("WARNING") else Level.ERROR,
        at=touches[0],
        others=touches[1:],
    )


def _touch(access: re.Match[str]) -> Touch:
    direction, x, y, z, function, file, line = access.groups()
    return Touch(
        direction=(direction or "").lower(),
        kernel=kernel_name(function),
        source=Source(file=file, line=int(line)) if file else None,
        thread=(int(x), int(y), int(z)) if x else None,
    )
