"""Sentences for people: nouns that depend on a number, and lines that break between words."""

import shutil
import textwrap
from typing import TextIO


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, which takes `s` in the plural, or `es` after `ch`."""
    ending = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def fitted(text: str, stream: TextIO) -> str:
    """Return the text with its lines broken between words if the stream is a terminal; a file keeps long lines."""
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(
        textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in text.splitlines()
    )
