"""The kind of a load, read from the Python source: TTIR no longer has block pointers."""

import linecache
from functools import lru_cache

from harness.model.run import Source

MOST_LINES = 20
"""The lines of a call; longer ones are not read to their end."""


@lru_cache(maxsize=4096)
def is_unpadded_block_load(source: Source) -> bool:
    """Return True if the call at this line checks the boundary of a block pointer, and names no padding."""
    call = _call_at(linecache.getlines(source.file)[source.line - 1 :][:MOST_LINES])
    return "boundary_check" in call and "padding_option" not in call


def _call_at(lines: list[str]) -> str:
    """Return the text up to the bracket that closes the first one."""
    text, depth = "".join(lines), 0
    for at, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == ")" and depth <= 0:
            return text[: at + 1]
    return text
