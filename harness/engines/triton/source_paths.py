"""The source locations in TTIR that comes from Triton's cache, corrected to the files of this process.

The key of Triton's cache holds a kernel's text and the number of its first line, but not its file.  So one release of a
library gets TTIR that another release compiled, with the paths of that one.  The text in the key lacks decorators: if
a config is added to them, the lines of the kernel move and the key stays.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

_KERNEL = re.compile(r'^#loc = loc\("([^"\n]+)":(\d+):', re.MULTILINE)
"""The location of the kernel itself: Triton makes it first, and MLIR prints it under the first alias."""
_PLACE = re.compile(r'loc\("([^"\n]+)":(\d+):')
SAME_PARTS = 2
"""The least number of equal last parts of two paths that are taken for the same file of two releases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource:
    """The source of a kernel in this process."""

    file: str
    line: int
    """The line of its `def`."""
    lines: int
    """The number of lines from there on."""


def relocated(ttir: str, kernel: KernelSource, loaded: Callable[[], Iterable[str]]) -> str:
    """Return the TTIR with locations in the files of this process.

    Args:
        ttir: a text from Triton's cache, perhaps made from another copy of the library.
        kernel: the source of its kernel here.
        loaded: returns the files of all imported modules; called only if a path is foreign.
    """
    definition = _KERNEL.search(ttir)
    if definition is None:
        return ttir
    file, line = definition[1], int(definition[2])
    paths = {place[1] for place in _PLACE.finditer(ttir)} - {kernel.file}
    foreign = {path for path in paths if _is_foreign(path)}
    if (file, line) == (kernel.file, kernel.line) and not foreign:
        return ttir
    moved = _moved(file, kernel.file, foreign, loaded) | {file: kernel.file}

    def place(match: re.Match[str]) -> str:
        at = int(match[2])
        in_kernel = match[1] == file and line <= at < line + kernel.lines
        return f'loc("{moved.get(match[1], match[1])}":{at + (kernel.line - line) * in_kernel}:'

    return _PLACE.sub(place, ttir)


def loaded_files() -> Iterator[str]:
    """Yield the files of all imported modules."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield file


def _is_foreign(path: str) -> bool:
    """Return True if Python does not import from any folder above the file."""
    return not any(entry and PurePath(path).is_relative_to(entry) for entry in sys.path)


def _moved(file: str, own: str, foreign: set[str], loaded: Callable[[], Iterable[str]]) -> dict[str, str]:
    """Return the files of this process by the foreign paths that stand for them."""
    if not foreign:
        return {}
    here = set(loaded())
    same = _same_parts(file, own)
    before, now = PurePath(file).parts[: -same or None], PurePath(own).parts[: -same or None]
    moved: dict[str, str] = {}
    for path in foreign - here:
        parts = PurePath(path).parts
        beside = str(PurePath(*now, *parts[len(before) :]))
        if same and parts[: len(before)] == before and beside in here:
            moved[path] = beside
        elif (alike := max(here, key=lambda file: _same_parts(path, file), default="")) and (
            _same_parts(path, alike) >= SAME_PARTS
        ):
            moved[path] = alike
    return moved


def _same_parts(path: str, other: str) -> int:
    """Return how many last parts the two paths have in common."""
    count = 0
    for a, b in zip(reversed(PurePath(path).parts), reversed(PurePath(other).parts), strict=False):
        if a != b:
            break
        count += 1
    return count
