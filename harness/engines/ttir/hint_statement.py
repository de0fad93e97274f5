"""The line of a compiler hint, read from the Python source: in TTIR it is an attribute of what it describes."""

import linecache
import re
from functools import lru_cache

from harness.model.run import Hint, Source

MOST_LINES = 60
"""How far after the operation its hint is looked for."""
_NEXT_FUNCTION = re.compile(r"\s*(?:def|@)\s*\w")


@lru_cache(maxsize=4096)
def line_of_hint(source: Source, hint: Hint) -> Source:
    """Return the line of the hint on a value that is computed at this line; the line itself if there is none.

    The hint is the first of its name, in the same function, from this line on that mentions what the line assigns to.
    """
    name = re.compile(rf"\b{hint.value.removeprefix('tl.')}\b")
    lines = linecache.getlines(source.file)[source.line - 1 :][:MOST_LINES]
    if not lines or name.search(lines[0]):
        return source
    targets = re.match(r"\s*([\w\s,]+?)\s*(?:[-+*/%&|^]|//|<<|>>)?=[^=]", lines[0])
    names = re.findall(r"\w+", targets[1]) if targets else []
    for after, line in enumerate(lines[1:], 1):
        if _NEXT_FUNCTION.match(line):
            break
        if name.search(line) and (not names or any(re.search(rf"\b{each}\b", line) for each in names)):
            return Source(file=source.file, line=source.line + after)
    return source
