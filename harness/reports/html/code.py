"""Python source as coloured HTML: an excerpt around the line at fault, and whole files."""

import textwrap
from dataclasses import dataclass

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from harness.model.finding import Excerpt

LEXER = PythonLexer(stripnl=False, ensurenl=False)
FORMATTER = HtmlFormatter[str](nowrap=True)
"""Made once: each takes longer to make than to use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of an excerpt."""

    number: int
    html: Markup
    at_fault: bool


def lines_of(excerpt: Excerpt, at_fault: int, *, in_colour: bool = True) -> tuple[Line, ...]:
    """Return the lines of an excerpt without common indentation and without empty lines at its ends."""
    text = textwrap.dedent("\n".join(excerpt.lines))
    shown = (coloured(text) if in_colour else escape(text)).split("\n")
    numbered = list(enumerate(shown, excerpt.first))
    while numbered and not numbered[-1][1]:
        numbered.pop()
    while numbered and not numbered[0][1]:
        numbered.pop(0)
    return tuple(Line(number=number, html=Markup(text), at_fault=number == at_fault) for number, text in numbered)  # noqa: S704 - Pygments escaped it


def coloured(text: str) -> Markup:
    """Return the text escaped, in a span for each token, with the same line breaks."""
    return Markup(highlight(text, LEXER, FORMATTER).removesuffix("\n"))  # noqa: S704 - as above
