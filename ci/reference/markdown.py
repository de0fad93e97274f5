"""Pieces of Markdown that the generated parts of the documentation share."""

from collections.abc import Iterable, Sequence


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its cells are Markdown."""
    return "\n".join(map(_row, (titles, ["--"] * len(titles), *rows)))


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def code(text: str) -> str:
    return f"`{text}`"


def escaped(text: str) -> str:
    """Return plain text as Markdown; words in backquotes stay code."""
    pieces = text.split("`")
    return "`".join(piece if number % 2 else _escaped(piece) for number, piece in enumerate(pieces))


def _escaped(text: str) -> str:
    for character in "\\*_<[":
        text = text.replace(character, f"\\{character}")
    return text
