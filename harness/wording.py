"""Sentences for people: nouns that depend on a number, and lines that break between words."""

import shutil
import textwrap
from typing import TextIO

MOST_DIGITS = 17
"""The significant digits that tell any two float64 numbers apart."""
CONTROLS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
}
"""By control character, the visible one to print: a terminal obeys escapes, and directions hide what is written."""


def visible(text: str) -> str:
    """Return a text of equal length without control characters but tabs and line breaks: `␛[2J` for an escape."""
    return text.translate(CONTROLS)


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, which takes `s` in the plural, or `es` after `ch`."""
    ending = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def alike(first: float, second: float, digits: int = 6) -> tuple[str, str]:
    """Return two numbers with equally many significant digits: with more than `digits` if they would look the same."""
    for count in range(digits, MOST_DIGITS + 1):
        texts = (f"{first:.{count}g}", f"{second:.{count}g}")
        if texts[0] != texts[1] or first == second:
            return texts
    return repr(first), repr(second)


def fitted(text: str, stream: TextIO) -> str:
    """Return the visible text, its lines broken between words if the stream is a terminal; a file keeps long lines."""
    text = visible(text)
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(
        textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in text.splitlines()
    )
