"""The lines of kernels that a run executed: facts of the run, in ranges, since they cross the process border."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

LineRange = tuple[int, int]
"""The first and the last line, counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FileLines:
    """Lines of one file."""

    file: str
    ranges: tuple[LineRange, ...]
    """Ascending, and apart."""

    @property
    def lines(self) -> frozenset[int]:
        return frozenset(lines_of(self.ranges))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedLines:
    """The lines that some launches executed, each of them all of the lines."""

    files: tuple[FileLines, ...]
    """Files of the kernel and of the device functions that it calls, ascending.

    A line is here if the compiled kernel has an operation of it: an assignment of a constant has none.
    """
    launches: int = 1


def lines_of(ranges: Iterable[LineRange]) -> Iterator[int]:
    """Yield all lines of the ranges."""
    for first, last in ranges:
        yield from range(first, last + 1)


def ranges_of(lines: Iterable[int]) -> tuple[LineRange, ...]:
    """Return the ranges of neighbours among the lines, ascending."""
    ranges: list[LineRange] = []
    for line in sorted(lines):
        if ranges and line <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], line)
        else:
            ranges.append((line, line))
    return tuple(ranges)


LineCount = tuple[int, int, int]
"""The first and the last line of a range, and how many launches executed each line of it."""


def line_counts(launches: Mapping[int, int]) -> tuple[LineCount, ...]:
    """Return launches by line as ranges of neighbours with equal counts, ascending."""
    counts: list[LineCount] = []
    for line, count in sorted(launches.items()):
        if counts and (line - 1, count) == counts[-1][1:]:
            counts[-1] = (counts[-1][0], line, count)
        else:
            counts.append((line, line, count))
    return tuple(counts)


def summed_line_counts(all_counts: Iterable[Iterable[LineCount]]) -> tuple[LineCount, ...]:
    """Return the sums by line, also those that are 0."""
    sums: dict[int, int] = {}
    for first, last, count in chain.from_iterable(all_counts):
        for line in range(first, last + 1):
            sums[line] = sums.get(line, 0) + count
    return line_counts(sums)
