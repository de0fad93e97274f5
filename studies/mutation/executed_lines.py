"""The source lines that a launch executed, from the locations in its TTIR.

Owns reading the builds that workers leave behind.  A line that compiles to nothing has no location.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.engines.triton.builds import BUILD_SUFFIX
from harness.model.run import Launch

LOCATION = re.compile(r'loc\("([^"]+\.py)":(\d+):\d+')

Line = tuple[str, int]
"""A file, by the path that the compiler saw, and a line number."""


class ExecutedLines:
    """Reads the lines of builds, each build once."""

    def __init__(self, builds: Path) -> None:
        self._builds = builds
        self._by_build: dict[str, frozenset[Line]] = {}

    def of(self, launches: Iterable[Launch]) -> frozenset[Line]:
        """Return the lines that these launches executed."""
        return frozenset().union(*(self._lines_of(launch.build) for launch in launches))

    def _lines_of(self, build: str) -> frozenset[Line]:
        if build not in self._by_build:
            text = json.loads((self._builds / f"{build}{BUILD_SUFFIX}").read_text(encoding="utf-8"))["ttir"]
            self._by_build[build] = frozenset((file, int(line)) for file, line in LOCATION.findall(text))
        return self._by_build[build]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRange:
    """A range of lines in one file of a library."""

    file: str
    """Relative to the library's folder."""
    first: int
    last: int

    def overlaps(self, lines: Iterable[Line]) -> bool:
        """Return True if any of these lines is in the range, wherever the library is installed."""
        suffix = f"/{self.file}"
        return any(self.first <= line <= self.last and file.endswith(suffix) for file, line in lines)
