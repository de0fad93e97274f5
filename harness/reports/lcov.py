"""The lines of kernels as an LCOV tracefile, which `genhtml`, editors and services of coverage read.

Counts are launches.  A function was called as often as its most frequent line.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from harness.documents.campaign import KernelLines


def lcov(kernel_lines: Iterable[KernelLines]) -> str:
    """Return the tracefile; a section for each file, with paths as the rows have them."""
    rows = sorted(kernel_lines, key=attrgetter("file", "line", "function"))
    return "".join(
        f"{line}\n" for file, own in groupby(rows, attrgetter("file")) for line in _section(file, tuple(own))
    )


def _section(file: str, rows: tuple[KernelLines, ...]) -> Iterator[str]:
    yield "TN:"
    yield f"SF:{_on_one_line(file)}"
    calls = {name: max(row.launches.values()) for name, row in _named(rows)}
    yield from (f"FN:{row.line},{name}" for name, row in _named(rows))
    yield from (f"FNDA:{count},{name}" for name, count in calls.items())
    yield f"FNF:{len(calls)}"
    yield f"FNH:{sum(count > 0 for count in calls.values())}"
    launches = {line: count for row in rows for line, count in row.launches.items()}
    yield from (f"DA:{line},{count}" for line, count in sorted(launches.items()))
    yield f"LF:{len(launches)}"
    yield f"LH:{sum(count > 0 for count in launches.values())}"
    yield "end_of_record"


def _named(rows: Iterable[KernelLines]) -> Iterator[tuple[str, KernelLines]]:
    """Yield each row with its name in the file: one that another function has too is followed by its line."""
    taken = set[str]()
    for row in rows:
        yield (f"{row.function}:{row.line}" if row.function in taken else row.function), row
        taken.add(row.function)


def _on_one_line(path: str) -> str:
    return path.replace("\n", " ")
