"""Reads the TOML file of accepted sanitizer reports, which are no findings; each entry states its reason.

Suppressions of the tool itself hide records.  Accepted ones are counted and shown with their reason.

    [[accept]]
    tool = "initcheck"
    kernel = "at::native::.*"
    reason = "torch copies whole vectors, the padding of a view included; nothing is computed from it"
"""

import re
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from harness import tables
from harness.errors import UsageError, unknown
from harness.model.compute_sanitizer_report import SanitizerRecord, Tool
from harness.model.triton_sanitizer_report import Instrumentation

FILE = "sanitizer_accepts.toml"
MATCHERS = ("kernel", "text", "file")
"""The keys that match a record; an entry has at least one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """One entry.  An empty field matches everything."""

    reason: str
    tool: str = ""
    kernel: str = ""
    """A pattern for the kernel's whole name."""
    text: str = ""
    """A pattern for a part of the record's text."""
    file: str = ""
    """The end of the path of the source file."""
    line: int = 0

    def matches(self, tool: Tool | Instrumentation, record: SanitizerRecord) -> bool:
        source = record.at.source
        return (
            self.tool in ("", tool)
            and (not self.kernel or re.fullmatch(self.kernel, record.at.kernel) is not None)
            and (not self.text or re.search(self.text, record.text) is not None)
            and (not self.file or (source is not None and f"/{source.file}".endswith(f"/{self.file}")))
            and (not self.line or (source is not None and source.line == self.line))
        )


NAMES = tuple(field.name for field in fields(Suppression))


def read_suppressions(path: Path) -> tuple[Suppression, ...]:
    """The entries of a file; none place there is no file.

    Raises:
        UsageError: it is not such a file; the text names the entry.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    entries = tables.entries(document, "accept", path)
    return tuple(_entry(f"{path}, entry {number}", entry) for number, entry in enumerate(entries, 1))


def _entry(place: str, entry: dict[str, Any]) -> Suppression:
    for name, value in entry.items():
        if name not in NAMES:
            raise UsageError(f"{place}: {unknown('key', name, NAMES)}")
        kind = int if name == "line" else str
        if type(value) is not kind:
            raise UsageError(f"{place}: {name} is no {'number' if kind is int else 'text'}")
    if not entry.get("reason", "").strip():
        raise UsageError(f"{place}: reason is missing; say why such a report is accepted")
    if not any(entry.get(name) for name in MATCHERS):
        raise UsageError(f"{place} would accept everything: give one of {', '.join(MATCHERS)}")
    tools = [*Tool, *Instrumentation]
    if "tool" in entry and entry["tool"] not in tools:
        raise UsageError(f"{place}: {unknown('tool', entry['tool'], tools)}")
    for name in ("kernel", "text"):
        try:
            re.compile(entry.get(name, ""))
        except re.error as error:
            raise UsageError(f"{place}: {name} is no pattern: {error}") from None
    return Suppression(**entry)
