"""The lines of a function, found by Python's compiler instead of its tokenizer in Python.

Triton reads the source of each kernel while a library is imported, by `inspect`.  For a library of hundreds of kernels
that takes longer than all the rest of the import.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

MOST_TRIES = 6
"""Texts whose lines begin at the margin."""
DEFINITIONS = ("def ", "class ", "async def ")
BEGINNINGS = ("@", *DEFINITIONS)
CLOSING = ")]}"


def getblock(lines: Sequence[str], otherwise: Callable[[Sequence[str]], Sequence[str]] = inspect.getblock) -> list[str]:
    """Return what `inspect.getblock` does: the lines of the function or class that begins with the first of them."""
    if lines and lines[0].startswith(BEGINNINGS):
        end = next((at for at in islice(_possible_ends(lines), MOST_TRIES) if _is_whole(lines[:at])), 0)
        last = next((at for at in range(end, 0, -1) if lines[at - 1].strip()), 0)
        if last and not lines[last - 1].lstrip().startswith("#"):  # whether a comment belongs to it depends on columns
            return list(lines[:last])
    return list(otherwise(lines))


def _possible_ends(lines: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of lines after which a line begins at the margin, and the number of all lines.

    Before the definition itself no decorator ends the block, and no parenthesis that is still open does.
    """
    is_defined = False
    for at in range(1, len(lines)):
        is_defined = is_defined or lines[at - 1].startswith(DEFINITIONS)
        if is_defined and lines[at][:1].strip() and lines[at][0] not in f"#{CLOSING}":
            yield at
    yield len(lines)


def _is_whole(lines: Sequence[str]) -> bool:
    """Return True for whole statements: no text, no parenthesis and no decorator goes on after them."""
    try:
        compile("".join(lines), "<block>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
