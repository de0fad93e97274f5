"""The lines of kernels that a search has not executed, for people: a line for each kernel or device function."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.documents.campaign import KernelLines
from harness.wording import counted

MOST_RANGES = 6
"""The most ranges of lines that a text names; LCOV, JSON and the page have all."""
NOTHING_KNOWN = (
    "no executed line of a kernel is known: launches on the virtual GPU tell them, from source files that exist"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRow:
    """One kernel or device function."""

    file: str
    function: str
    line: int
    executed: int
    executable: int
    missed: tuple[str, ...]
    """The lines that no launch executed, in ranges: `12`, `14-20`."""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


def line_rows(rows: Iterable[KernelLines]) -> tuple[LineRow, ...]:
    """Return a row for each function; those with the most lines that no launch executed come first."""
    lines = (
        LineRow(
            file=row.file,
            function=row.function,
            line=row.line,
            executed=len(row.launches) - len(row.missed),
            executable=len(row.launches),
            missed=tuple(_ranges(tuple(row.launches), frozenset(row.missed))),
        )
        for row in rows
    )
    return tuple(sorted(lines, key=lambda row: (row.executed - row.executable, row.file, row.line)))


def line_table(rows: Iterable[KernelLines]) -> Iterator[str]:
    """Yield a table of the functions with lines that no launch executed, and the conclusion."""
    table = line_rows(rows)
    if not table:
        yield NOTHING_KNOWN
        return
    partial = [row for row in table if row.missed]
    width = max((len(row.function) for row in partial), default=0)
    if partial:
        yield "lines of kernels that no launch executed:"
    for row in partial:
        where = f"all: {row.place}" if not row.executed else f"{row.file}:{_named(row.missed)}"
        yield f"  {row.function:<{width}}  {row.executed:>4} of {row.executable:>4}  {where}"
    yield conclusion(table)


def conclusion(table: Sequence[LineRow]) -> str:
    """Return how much was executed of how many functions."""
    executed, executable = sum(row.executed for row in table), sum(row.executable for row in table)
    reached = sum(row.executed > 0 for row in table)
    return (
        f"executed {executed:,} of {counted(executable, 'line')} of kernels ({executed / executable:.0%}), "
        f"in {reached:,} of {counted(len(table), 'function')}"
    )


def _named(ranges: Sequence[str]) -> str:
    more = len(ranges) - MOST_RANGES
    return ", ".join(ranges[:MOST_RANGES]) + (f" and {more} more" if more > 0 else "")


def _ranges(executable: Sequence[int], missed: frozenset[int]) -> Iterator[str]:
    """Yield runs of missed lines; lines that are not executable do not end a run."""
    run: list[int] = []
    for line in (*executable, None):
        if line is not None and line in missed:
            run.append(line)
        elif run:
            yield str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"
            run = []
