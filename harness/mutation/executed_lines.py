"""Which source lines a launch executed: those that its TTIR names.

Owns reading the builds that workers leave behind.  A line that compiles to nothing is named by no TTIR.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.model.run import Launch
from harness.virtual.driver.builds import BUILD_SUFFIX

PLACE = re.compile(r'loc\("([^"]+\.py)":(\d+):\d+')

Line = tuple[str, int]
"""A file, as the compiler knew it, and a line."""


class Lines:
    """The lines of builds, each read once."""

    def __init__(self, builds: Path) -> None:
        self._builds = builds
        self._known: dict[str, frozenset[Line]] = {}

    def of(self, launches: Iterable[Launch]) -> frozenset[Line]:
        """What these launches executed."""
        return frozenset().union(*(self._of(launch.build) for launch in launches))

    def _of(self, build: str) -> frozenset[Line]:
        if build not in self._known:
            text = json.loads((self._builds / f"{build}{BUILD_SUFFIX}").read_text(encoding="utf-8"))["ttir"]
            self._known[build] = frozenset((file, int(line)) for file, line in PLACE.findall(text))
        return self._known[build]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Some lines of one file of a library."""

    file: str
    """Relative to the library's folder."""
    first: int
    last: int

    def meets(self, lines: Iterable[Line]) -> bool:
        """Whether any of these is among them, wherever the library lies."""
        ending = f"/{self.file}"
        return any(self.first <= line <= self.last and file.endswith(ending) for file, line in lines)
