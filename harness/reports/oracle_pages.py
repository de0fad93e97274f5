"""The documentation of each oracle: its section of `docs/how-to/read-a-finding.md`, which the wheel has."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from harness.errors import UsageError
from harness.oracles import registry

NAME = "read-a-finding.md"
IN_CHECKOUT = Path(__file__).resolve().parents[2] / "docs" / "how-to" / NAME
SECTION = re.compile(r"^## ([\w-]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^(?:<!-- (?:example|planted): [\w-]+ -->\n)?```\w*\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class OraclePage:
    """One oracle, explained."""

    oracle: str
    promise: str
    paragraphs: tuple[str, ...]
    """What a failure is, each in one line; code is in backquotes."""
    example: str
    """A finding as it is printed, or a command that shows one; empty without either."""


def page_of(oracle: str) -> OraclePage:
    """Return the page of an oracle.

    Raises:
        UsageError: there is no such oracle; the text names the nearest.
    """
    promise = registry.find(oracle).promise
    text = _sections().get(oracle, "")
    example = EXAMPLE.search(text)
    prose = LINK.sub(r"\1", EXAMPLE.sub("", text))
    return OraclePage(
        oracle=oracle,
        promise=promise,
        paragraphs=tuple(" ".join(paragraph.split()) for paragraph in prose.split("\n\n") if paragraph.strip()),
        example=example[1] if example else "",
    )


@cache
def _sections() -> Mapping[str, str]:
    """Return the sections of the page by their headings.

    Raises:
        UsageError: the page is missing.
    """
    packaged = files("harness.reports").joinpath(NAME)
    source = packaged if packaged.is_file() else IN_CHECKOUT
    try:
        return dict(SECTION.findall(source.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"the page of the oracles is missing ({error.strerror}: {source}): install again") from None
