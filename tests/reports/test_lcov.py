"""Executed lines of kernels are written as LCOV, and those never executed are listed."""

from collections import defaultdict
from dataclasses import dataclass, field

import pytest

from harness.documents.campaign import KernelLines
from harness.reports.lcov import lcov
from harness.reports.line_table import LineRow, line_rows, line_table
from tests.reports.samples import EVIL, REPORT


@dataclass
class Section:
    """One file of a tracefile."""

    functions: dict[str, int] = field(default_factory=dict[str, int])
    calls: dict[str, int] = field(default_factory=dict[str, int])
    lines: dict[int, int] = field(default_factory=dict[int, int])
    totals: dict[str, int] = field(default_factory=dict[str, int])


def sections(text: str) -> dict[str, Section]:
    """Read a tracefile as geninfo(1) defines it: records of a file, each of them once."""
    read = defaultdict[str, Section](Section)
    file = ""
    for line in text.splitlines():
        record, _, value = line.partition(":")
        match record:
            case "TN":
                assert not file
            case "SF":
                assert not file
                assert value not in read
                file = value
            case "FN":
                at, _, name = value.partition(",")
                assert name not in read[file].functions
                read[file].functions[name] = int(at)
            case "FNDA":
                count, _, name = value.partition(",")
                assert name in read[file].functions
                read[file].calls[name] = int(count)
            case "DA":
                at, _, count = value.partition(",")
                assert int(at) not in read[file].lines
                read[file].lines[int(at)] = int(count)
            case "FNF" | "FNH" | "LF" | "LH":
                read[file].totals[record] = int(value)
            case "end_of_record":
                assert file
                file = ""
            case _:
                pytest.fail(f"no record of a tracefile: {line}")
    assert not file
    return dict(read)


def test_each_file_has_its_functions_lines_and_totals() -> None:
    assert sections(lcov(REPORT.kernel_lines)) == {
        "fla/a.py": Section(
            functions={EVIL: 10, "device": 30},
            calls={EVIL: 7, "device": 0},
            lines={12: 7, 13: 7, 14: 7, 16: 0, 17: 0, 20: 0, 25: 2, 31: 0, 33: 0},
            totals={"FNF": 2, "FNH": 1, "LF": 9, "LH": 4},
        ),
        "fla/b.py": Section(
            functions={"device": 1, "device:7": 7},
            calls={"device": 1, "device:7": 3},
            lines={2: 1, 3: 1, 8: 3},
            totals={"FNF": 2, "FNH": 2, "LF": 3, "LH": 3},
        ),
    }


def test_a_report_without_lines_is_an_empty_tracefile() -> None:
    assert lcov(()) == ""


def test_the_functions_with_most_unexecuted_lines_come_first() -> None:
    first, second, *_ = line_rows(REPORT.kernel_lines)
    assert first == LineRow(file="fla/a.py", function=EVIL, line=10, executed=4, executable=7, missed=("16-20",))
    assert (second.function, second.executed, second.missed) == ("device", 0, ("31-33",))


def test_the_table_names_what_no_launch_executed() -> None:
    assert list(line_table(REPORT.kernel_lines)) == [
        "lines of kernels that no launch executed:",
        f"  {EVIL}     4 of    7  fla/a.py:16-20",
        f"  {'device':<{len(EVIL)}}     0 of    2  all: fla/a.py:30",
        "executed 7 of 12 lines of kernels (58%), in 3 of 4 functions",
    ]


def test_a_long_list_of_lines_is_cut() -> None:
    lines = tuple((line, line, line % 2) for line in range(10, 30))
    table = line_table([KernelLines(file="a.py", function="k", line=9, lines=lines)])
    assert list(table)[1] == "  k    10 of   20  a.py:10, 12, 14, 16, 18, 20 and 4 more"


def test_a_search_without_such_launches_says_so() -> None:
    (line,) = line_table(())
    assert line.startswith("no executed line of a kernel is known")
