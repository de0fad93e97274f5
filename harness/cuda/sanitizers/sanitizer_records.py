"""What compute-sanitizer saves at its end, its XML, as facts.

The vendor documents no schema, and each tool and release has shapes of its own: so a record is searched for what looks
like an access (a function, a path, a line), wherever it stands, and one that shows nothing of the kind is kept with its
text.  Nothing in the file makes reading fail; a file that breaks off gives the records before the break.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast
from xml.etree import ElementTree as ET

from harness.cuda.sanitizers.suppressions import Suppression
from harness.model.compute_sanitizer_report import Index, Level, SanitizerRecord, Tool, Touch
from harness.model.ending import Source
from harness.model.triton_sanitizer_report import Instrumentation

Element = ET.Element
STACKS = frozenset({"hostStack", "deviceStack", "hostAccessStack", "hostMemOpStack"})
LIBRARIES = ("/triton/", "/torch/", "/harness/")
"""Where a line of Python says nothing of who launched a kernel."""
HOST_LINES = 3
TOUCHES = 4
LONGEST_TEXT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A file's content."""

    records: tuple[SanitizerRecord, ...]
    """Grouped, in the order of their first reports."""
    cut: bool
    """It breaks off."""


def read_records(text: str) -> Saved:
    """All that can be read of such a file."""
    parser = ET.XMLPullParser(["end"])
    records: list[SanitizerRecord] = []
    try:
        parser.feed(text)
        records += _ended(parser)
        parser.close()
    except ET.ParseError:
        records += _ended(parser)
        return Saved(records=grouped(records), cut=True)
    return Saved(records=grouped(records), cut=False)


def grouped(records: Iterable[SanitizerRecord]) -> tuple[SanitizerRecord, ...]:
    """One record for each kernel, line and kind, with their count."""
    groups: dict[tuple[object, ...], SanitizerRecord] = {}
    for record in records:
        key = (record.at.kernel, record.at.source, record.kind, record.what, *(one.source for one in record.others))
        first = groups.get(key)
        groups[key] = replace(first, count=first.count + record.count) if first else record
    return tuple(groups.values())


def accept(
    records: Iterable[SanitizerRecord], tool: Tool | Instrumentation, suppressions: Iterable[Suppression]
) -> tuple[SanitizerRecord, ...]:
    """The same records, those that an entry speaks of with its reason."""
    entries = tuple(suppressions)
    return tuple(
        replace(record, accepted=next((entry.reason for entry in entries if entry.fits(tool, record)), ""))
        for record in records
    )


def kernel_name(function: str) -> str:
    """A function's name without return type, template arguments and parameters: `at::native::fill_kernel`."""
    bare = function.replace("(anonymous namespace)::", "").removeprefix("void ")
    return re.split(r"[<(]", bare, maxsplit=1)[0].strip() or function


def what_of(text: str, direction: str = "", error: str = "") -> str:
    """The kind of mistake in a few words that are the same in every run: `out of bounds write`, `race`."""
    if any(part in text.lower() for part in ("race reported", "race condition", "hazard")):
        return "race"
    if error and direction:
        return f"{error} {direction}"
    plain = re.sub(r"\s+of size \d+ bytes?|\b0x[0-9a-fA-F]+\b|\b\d+\b|__(?=\w)|(?<=\w)__|[\[(].*", "", text)
    return re.sub(r"\s+", " ", plain).strip().lower()[:80] or "report"


def _ended(parser: Any) -> Iterator[SanitizerRecord]:
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
        what=what_of(text, direction, error),
        level=_level(_text(element, "level"), text),
        at=_inlined(element, first),
        others=touches[1:TOUCHES],
        space=(_text(element, ".//what/space") or _space(text)).strip("_"),
        size_bytes=int(size) if size.isdecimal() else None,
        address=_text(element, ".//address"),
        host=_host(element),
    )


def _touches(element: Element) -> Iterator[Touch]:
    """Every place of the record that names a function, a path or a line, with whose it is."""

    def walk(node: Element, above: tuple[Element, ...]) -> Iterator[Touch]:
        if node.tag in STACKS:
            return
        if any(node.find(name) is not None for name in ("func", "path", "line")):
            chain = (node, *above)
            yield Touch(
                direction=_nearest(chain, ("direction", "access")).lower(),
                kernel=kernel_name(_text(node, "func")),
                source=_source(node),
                program=_first(_index(one, "blockIdx") for one in chain),
                thread=_first(_index(one, "threadIdx") for one in chain),
            )
            return
        for child in node:
            yield from walk(child, (node, *above))

    yield from walk(element, ())


def _nearest(chain: tuple[Element, ...], names: tuple[str, ...]) -> str:
    """The first such text on the way up, for the record itself wherever in it it stands."""
    for node in chain:
        for name in names:
            if found := _text(node, name) or (_text(node, f"what/{name}")):
                return found
    return ""


def _inlined(element: Element, touch: Touch) -> Touch:
    """The access with the kernel's own line, where it is in what Triton's library had inlined there."""
    frames = element.findall(".//deviceStack/frame")
    outer = next((source for frame in frames if (source := _source(frame)) and not _in_library(source.file)), None)
    if outer is None or (touch.source is not None and not _in_library(touch.source.file)):
        return touch
    return replace(touch, source=outer)


def _in_library(path: str) -> bool:
    return any(library in path for library in LIBRARIES)


def _host(element: Element) -> tuple[str, ...]:
    frames = (_source(frame) for frame in element.findall(".//hostStack/frame"))
    own = (str(source) for source in frames if source and not _in_library(source.file))
    return tuple(own)[:HOST_LINES]


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


def _level(said: str, text: str) -> Level:
    """As the record says; initcheck's say nothing, and count as errors."""
    word = said.lower() or text.partition(":")[0].lower()
    if "warn" in word:
        return Level.WARNING
    return Level.INFO if word == "info" else Level.ERROR


def _space(text: str) -> str:
    found = re.search(r"__(global|shared|local)__", text)
    return found.group(1) if found else ""


def _text(node: Element, path: str) -> str:
    return (node.findtext(path) or "").strip()


def _all_text(element: Element) -> str:
    return " ".join(piece.strip() for piece in element.itertext() if piece.strip())[:LONGEST_TEXT]
