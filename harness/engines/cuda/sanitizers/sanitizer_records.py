"""Parses the XML report of compute-sanitizer.

NVIDIA documents no schema, and its shape differs between tools and releases.  So the parser searches each record for
elements that look like an access: a function, a path or a line.  A record without any is kept with its text.  Nothing
in the file makes parsing fail; a truncated file yields the records before the break.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast
from xml.etree import ElementTree as ET

from harness.engines.cuda.sanitizers.suppressions import Suppression
from harness.model.compute_sanitizer_report import Index, Level, SanitizerRecord, Tool, Touch
from harness.model.ending import Source
from harness.model.triton_sanitizer_report import Instrumentation

Element = ET.Element
STACKS = frozenset({"hostStack", "deviceStack", "hostAccessStack", "hostMemOpStack"})
LIBRARY_PATHS = ("/triton/", "/torch/", "/harness/")
"""Paths whose Python lines do not show who launched a kernel."""
MAX_HOST_LINES = 3
MAX_TOUCHES = 4
MAX_TEXT_LENGTH = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRecords:
    """The records of one report."""

    records: tuple[SanitizerRecord, ...]
    """Grouped, in order of first occurrence."""
    is_truncated: bool


def read_records(text: str) -> SavedRecords:
    """Parse a report as far as possible."""
    parser = ET.XMLPullParser(["end"])
    records: list[SanitizerRecord] = []
    try:
        parser.feed(text)
        records += _complete_records(parser)
        parser.close()
    except ET.ParseError:
        records += _complete_records(parser)
        return SavedRecords(records=grouped(records), is_truncated=True)
    return SavedRecords(records=grouped(records), is_truncated=False)


def grouped(records: Iterable[SanitizerRecord]) -> tuple[SanitizerRecord, ...]:
    """Merge records of the same kernel, lines and kind, and count them."""
    groups: dict[tuple[object, ...], SanitizerRecord] = {}
    for record in records:
        key = (record.at.kernel, record.at.source, record.kind, record.what, *(other.source for other in record.others))
        first = groups.get(key)
        groups[key] = replace(first, count=first.count + record.count) if first else record
    return tuple(groups.values())


def mark_accepted(
    records: Iterable[SanitizerRecord], tool: Tool | Instrumentation, suppressions: Iterable[Suppression]
) -> tuple[SanitizerRecord, ...]:
    """Return the records; those that an entry matches carry its reason."""
    entries = tuple(suppressions)
    return tuple(
        replace(record, accepted=next((entry.reason for entry in entries if entry.matches(tool, record)), ""))
        for record in records
    )


def kernel_name(function: str) -> str:
    """Return a function's name without return type, template arguments and parameters: `at::native::fill_kernel`."""
    bare = function.replace("(anonymous namespace)::", "").removeprefix("void ")
    return re.split(r"[<(]", bare, maxsplit=1)[0].strip() or function


def describe_mistake(text: str, direction: str = "", error: str = "") -> str:
    """Describe the kind of mistake in words that are equal in every run: `out of bounds write`, `race`."""
    if any(part in text.lower() for part in ("race reported", "race condition", "hazard")):
        return "race"
    if error and direction:
        return f"{error} {direction}"
    # Drop sizes, addresses, numbers, underscores and brackets, which differ between runs.
    plain = re.sub(r"\s+of size \d+ bytes?|\b0x[0-9a-fA-F]+\b|\b\d+\b|__(?=\w)|(?<=\w)__|[\[(].*", "", text)
    return re.sub(r"\s+", " ", plain).strip().lower()[:80] or "report"


def _complete_records(parser: Any) -> Iterator[SanitizerRecord]:
    for _, element in cast("Iterator[tuple[str, Element]]", parser.read_events()):
        if element.tag == "record":
            yield _record(element)
            element.clear()


def _record(element: Element) -> SanitizerRecord:
    text = _text(element, ".//what/text") or _text(element, ".//text") or _all_text(element)
    direction, error = _text(element, ".//what/direction").lower(), _text(element, ".//what/error")
    touches = tuple(dict.fromkeys(_touches(element)))
    first = touches[0] if touches else Touch(direction=direction, kernel="")
    size = _text(element, ".//what/size")
    return SanitizerRecord(
        kind=_text(element, "kind") or "unknown",
        text=text,
        what=describe_mistake(text, direction, error),
        level=_level(_text(element, "level"), text),
        at=_with_kernel_line(element, first),
        others=touches[1:MAX_TOUCHES],
        space=(_text(element, ".//what/space") or _space(text)).strip("_"),
        size_bytes=int(size) if size.isdecimal() else None,
        address=_text(element, ".//address"),
        host=_host(element),
    )


def _touches(element: Element) -> Iterator[Touch]:
    """Yield each element that names a function, a path or a line, as an access."""

    def walk(node: Element, ancestors: tuple[Element, ...]) -> Iterator[Touch]:
        if node.tag in STACKS:
            return
        if any(node.find(name) is not None for name in ("func", "path", "line")):
            chain = (node, *ancestors)
            yield Touch(
                direction=_nearest_text(chain, ("direction", "access")).lower(),
                kernel=kernel_name(_text(node, "func")),
                source=_source(node),
                program=_first(_index(owner, "blockIdx") for owner in chain),
                thread=_first(_index(owner, "threadIdx") for owner in chain),
            )
            return
        for child in node:
            yield from walk(child, (node, *ancestors))

    yield from walk(element, ())


def _nearest_text(chain: tuple[Element, ...], names: tuple[str, ...]) -> str:
    """Return the first such text in the innermost element of the chain that has one."""
    for node in chain:
        for name in names:
            if match := _text(node, name) or (_text(node, f"what/{name}")):
                return match
    return ""


def _with_kernel_line(element: Element, touch: Touch) -> Touch:
    """Return the access at the kernel's own line if it lies in an inlined function of Triton's library."""
    frames = element.findall(".//deviceStack/frame")
    outer = next((source for frame in frames if (source := _source(frame)) and not _in_library(source.file)), None)
    if outer is None or (touch.source is not None and not _in_library(touch.source.file)):
        return touch
    return replace(touch, source=outer)


def _in_library(path: str) -> bool:
    return any(library in path for library in LIBRARY_PATHS)


def _host(element: Element) -> tuple[str, ...]:
    frames = (_source(frame) for frame in element.findall(".//hostStack/frame"))
    own = (str(source) for source in frames if source and not _in_library(source.file))
    return tuple(own)[:MAX_HOST_LINES]


def _source(node: Element) -> Source | None:
    path, line = _text(node, "path"), _text(node, "line")
    return Source(file=path, line=int(line)) if path and line.isdecimal() else None


def _index(owner: Element, name: str) -> Index | None:
    node = owner.find(name)
    if node is None:
        node = owner.find(f"who/{name}")
    if node is None:
        return None
    x, y, z = (_text(node, axis) for axis in "xyz")
    return (int(x), int(y), int(z)) if x.isdecimal() and y.isdecimal() and z.isdecimal() else None


def _first(values: Iterable[Index | None]) -> Index | None:
    return next((value for value in values if value is not None), None)


def _level(level: str, text: str) -> Level:
    """Return the record's level; records of initcheck have none and count as errors."""
    label = level.lower() or text.partition(":")[0].lower()
    if "warn" in label:
        return Level.WARNING
    return Level.INFO if label == "info" else Level.ERROR


def _space(text: str) -> str:
    match = re.search(r"__(global|shared|local)__", text)
    return match.group(1) if match else ""


def _text(node: Element, path: str) -> str:
    return (node.findtext(path) or "").strip()


def _all_text(element: Element) -> str:
    return " ".join(piece.strip() for piece in element.itertext() if piece.strip())[:MAX_TEXT_LENGTH]
