"""Reading and writing of JSON documents, whatever their kind.

Reading is strict, since files come from anywhere: a document is parsed, its kind and schema version are
checked, and it is converted field by field.  An error names the file and the exact place.  Nothing is ever executed.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from cattrs import Converter
from cattrs.gen import make_dict_unstructure_fn, override

from harness import wire
from harness.documents.finding import FindingDocument, RegressionDocument, finding_document
from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.errors import ReplayError
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.finding import Finding
from harness.model.op import Dim

T = TypeVar("T")

LARGEST_SIZE = Dim(low=1, high=1).largest
"""The largest size of a dim: no op declares a larger one without saying so."""
MOST_DEVICES = 256
"""Devices that are remembered while documents are read."""
WIDTH = 110
"""A list or object that fits into so many columns is written on one line."""


def read(path: Path, *classes: type[T]) -> T:
    """Read a document of one of the given classes.

    Raises:
        ReplayError: the file cannot be read or holds something else; the text names the file and the field at fault.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReplayError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if not text.strip():
        raise ReplayError(f"{path}: the file is empty")
    try:
        return loads(text, *classes)
    except ReplayError as error:
        raise ReplayError(f"{path}: {error}") from None


def loads(text: str, *classes: type[T]) -> T:
    """Read a document of one of the given classes from its text.

    Raises:
        ReplayError: the text holds something else.
    """
    return read_plain(wire.parse(text), *classes)


def read_plain(plain: object, *classes: type[T]) -> T:
    """Read a document of one of the given classes from its parsed JSON.

    Raises:
        ReplayError: it is something else.
    """
    by_kind = {_kind_of(document): document for document in classes}
    match plain:
        case {"kind": kind, "schema_version": version}:
            if type(version) is not int or version != SCHEMA_VERSION:
                raise ReplayError(f"its schema_version is {version!r}, and this release reads {SCHEMA_VERSION}")
            if not isinstance(kind, str) or kind not in by_kind:
                raise ReplayError(f"a document of kind {kind!r}; expected {_listed(by_kind)}")
            return wire.structure(_converter(), plain, by_kind[Kind(kind)])
        case {"kind": _}:
            raise ReplayError("schema_version: missing")
        case _:
            raise ReplayError(f"not a document of the harness: expected an object whose `kind` is {_listed(by_kind)}")


def read_case(text: str) -> Case:
    """Read a bare case, which has neither kind nor schema version.

    Raises:
        ReplayError: the text holds something else.
    """
    return wire.structure(_converter(), wire.parse(text), Case)


def dumps(document: object) -> str:
    """Return the text of a document: keys in the order of their fields, what fits on a line on one line."""
    return "".join(_lines(plain_of(document), "", "")) + "\n"


def plain_of(document: object) -> Any:
    """Return the document as JSON knows it: objects, lists, strings, numbers."""
    return _converter().unstructure(document)


def write(document: object, path: Path) -> None:
    """Write the document, whole or not at all."""
    write_text(dumps(document), path)


def write_text(text: str, path: Path) -> None:
    """Write the text, whole or not at all."""
    wire.write_bytes([text.encode()], path)


# --- layout ----------------------------------------------------------------------------------------------------------


def _lines(plain: Any, indent: str, key: str) -> Iterator[str]:
    """Yield pieces of the text of a value that stands after `indent` and `key`."""
    flat = json.dumps(plain, allow_nan=False)
    is_container = isinstance(plain, (dict, list)) and bool(plain)
    if not is_container or (indent and len(indent) + len(key) + len(flat) <= WIDTH):
        yield flat
        return
    deeper = f"{indent}  "
    opening, closing = "{}" if isinstance(plain, dict) else "[]"
    yield opening
    for number, (name, value) in enumerate(_members(plain)):
        yield f"{',' if number else ''}\n{deeper}{name}"
        yield from _lines(value, deeper, name)
    yield f"\n{indent}{closing}"


def _members(plain: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(plain, dict):
        yield from ((f"{json.dumps(name)}: ", value) for name, value in plain.items())
    else:
        yield from (("", value) for value in plain)


# --- conversion ------------------------------------------------------------------------------------------------------


def _kind_of(document: type[Any]) -> Kind:
    """Return the default of the class's field `kind`."""
    kind = next(each.default for each in fields(document) if each.name == "kind")
    assert kind is not MISSING
    return kind


def _listed(by_kind: dict[Kind, Any]) -> str:
    *first, last = map(str, by_kind)
    return f"{', '.join(first)} or {last}" if first else last


def _read_date(value: Any, _: Any) -> date:
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise wire.Mismatch("a date such as 2027-03-31", value) from None


def _checked(converter: Converter, of: type[Any], complaint_of: Callable[[Any], str]) -> None:
    """Refuse values of a class that no machine could run, with the complaint about them."""
    read = converter.get_structure_hook(of)
    known: dict[str, Any] = {}

    def read_checked(value: Any, into: Any) -> Any:
        # Thousands of findings share a few devices, which have more fields than all else of a case.
        text = repr(value) if of is DeviceProfile else ""
        if text and text in known:
            return known[text]
        result = read(value, into)
        if complaint := complaint_of(result):
            raise wire.Misfit(complaint)
        if text and len(known) < MOST_DEVICES:
            known[text] = result
        return result

    converter.register_structure_hook(of, read_checked)


def _complaint_about_device(device: DeviceProfile) -> str:
    return "" if device.sm_count > 0 else f".sm_count: expected at least 1, got {device.sm_count}"


def _complaint_about_case(case: Case) -> str:
    wrong = ((name, size) for name, size in case.dims.items() if not 0 <= size <= LARGEST_SIZE)
    return next((f".dims.{name}: expected 0 to {LARGEST_SIZE}, got {size}" for name, size in wrong), "")


@cache
def _converter() -> Converter:
    """Return the converter of documents.  Building it on first use saves many milliseconds."""
    converter = wire.document_converter()
    _checked(converter, DeviceProfile, _complaint_about_device)
    _checked(converter, Case, _complaint_about_case)
    converter.register_structure_hook(date, _read_date)
    converter.register_unstructure_hook(date, date.isoformat)
    for document in (RegressionDocument, FindingDocument):
        paths = override(omit_if_default=True)  # only findings of kernel tests have them
        converter.register_unstructure_hook(document, make_dict_unstructure_fn(document, converter, import_paths=paths))
    converter.register_structure_hook(Finding, lambda value, _: converter.structure(value, FindingDocument).finding)
    converter.register_unstructure_hook(Finding, lambda finding: converter.unstructure(finding_document(finding)))
    return converter
