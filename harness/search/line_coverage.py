"""Line coverage: which lines of kernels the launches of a campaign have executed.

Counts while cases are judged; the Python source is read once, at the end.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.documents.campaign import KernelLines
from harness.model.executed_lines import FileLines, line_counts
from harness.model.run import Run
from harness.search.kernel_statements import KernelFunction, functions_of

Seen = tuple[FileLines, ...]
"""Lines with operations that one launch has executed."""


@dataclass(slots=True)
class LineCoverage:
    """The executed lines of one campaign."""

    launches: Counter[Seen] = field(default_factory=Counter[Seen])

    def count(self, run: Run) -> None:
        """Count the launches of a run."""
        for row in run.lines:
            self.launches[row.files] += row.launches

    def rows(self, short: Callable[[str], str]) -> tuple[KernelLines, ...]:
        """Return a row for each kernel and device function of the files that launches reached, the others included.

        `short` returns the name of a file in the report.  A file that cannot be read has no rows.
        """
        by_file: dict[str, Counter[frozenset[int]]] = {}
        for seen, launches in self.launches.items():
            for one in seen:
                by_file.setdefault(one.file, Counter())[one.lines] += launches
        return tuple(
            row for file, counts in sorted(by_file.items()) for row in _rows_of_file(short(file), _read(file), counts)
        )


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _rows_of_file(name: str, text: str, counts: Mapping[frozenset[int], int]) -> Iterator[KernelLines]:
    """Yield the rows of a file, in the order of its lines; `counts` are launches by the lines that they showed."""
    functions = functions_of(text)
    all_seen = frozenset[int]().union(*counts)
    for function in reversed(functions):
        own = frozenset(range(function.line, function.last_line + 1)).difference(
            *(range(inner.line, inner.last_line + 1) for inner in functions if _is_inside(inner, function))
        )
        if not function.executable or not (function.is_jit or own & all_seen):
            continue
        launches = Counter[int](dict.fromkeys(function.executable, 0))
        for seen, count in counts.items():
            launches.update(dict.fromkeys(function.executed(seen & own), count))
        yield KernelLines(file=name, function=function.name, line=function.line, lines=line_counts(launches))


def _is_inside(inner: KernelFunction, outer: KernelFunction) -> bool:
    return inner is not outer and outer.line <= inner.line and inner.last_line <= outer.last_line
