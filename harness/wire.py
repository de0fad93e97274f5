"""JSON to and from the frozen values of the model: the text that processes exchange, and the base of the files.

The encoding is standard JSON.  A member of a union carries its class name under `type`.  A float that JSON does not
know is written `{"float": "nan"}`.  Reading is strict, since files come from elsewhere.  It refuses unknown keys,
missing fields and values of another type, and the message names the place.  Nothing is ever executed.

`harness.documents` builds the JSON files on `document_converter`.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from enum import Enum
from functools import cache, lru_cache
from math import isfinite
from pathlib import Path
from secrets import token_hex
from types import UnionType
from typing import Any, NoReturn, TypeVar, Union, get_origin, overload

from cattrs import Converter, transform_error
from cattrs.cols import homogenous_tuple_structure_factory
from cattrs.errors import ForbiddenExtraKeysError
from cattrs.gen import (
    make_dict_structure_fn,
    make_dict_unstructure_fn,
    make_hetero_tuple_structure_fn,
    make_mapping_structure_fn,
    override,
)
from cattrs.strategies import configure_tagged_union

from harness.errors import ReplayError
from harness.model.case import ADDED, Case
from harness.model.device import ADDED_TO_DEVICES, DeviceProfile
from harness.model.paired_run import PairedRun, PairedRunRequest, RebuiltRequest, RunRequest
from harness.model.picture import Picture
from harness.model.run import Ending, MemoryEvent, Run
from harness.model.verdict import Verdict

T = TypeVar("T")
Hook = Callable[[Any, Any], Any]

Scalar = int | float | bool | str | None
"""The type of a value in `Launch.constants`."""

TAG = "type"
UNIONS = (Ending, MemoryEvent, Picture, Verdict)
NOT_FINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
LONGEST_QUOTE = 60
"""Characters of a refused value that a message quotes."""
NAMED_KEY = re.compile(r"\['([A-Za-z_]\w*)'\]")
"""A key of a mapping as cattrs writes it in a path, where it can be written `.key`."""


def to_json(value: object, *, indent: int | None = None) -> str:
    """Return the value as standard JSON in ASCII, on one line unless an indent is given."""
    plain = _quick().unstructure(value)
    return _compact(plain) if indent is None else json.dumps(plain, indent=indent, allow_nan=False)


@overload
def from_json(text: str | bytes, into: type[T]) -> T: ...
@overload
def from_json(text: str | bytes, into: UnionType) -> Any: ...
def from_json(text: str | bytes, into: Any) -> Any:
    """Read a value of type `into`: a class of the model, or one of its unions.

    Raises:
        ReplayError: the text is not JSON, or not a value of that type; the message names the first field at fault.
    """
    return _structured(parse(text), into)


def read_kept(path: Path, into: type[T]) -> T | None:
    """Return the object that a file holds; None if there is no such file, or it is damaged."""
    try:
        return from_json(path.read_bytes(), into)
    except (OSError, ReplayError):
        return None


def write_bytes(contents: Iterable[bytes], path: Path) -> None:
    """Write bytes one after the other, whole or not at all."""
    draft = draft_of(path)
    try:
        with draft.open("wb") as file:
            file.writelines(contents)
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def draft_of(path: Path) -> Path:
    """Return a name beside the path, for a draft that is renamed when it is whole.

    Each draft has another name, since processes of several machines may write to one folder.
    """
    return path.with_name(f".{path.name}.{token_hex(4)}.unfinished")


def parse(text: str | bytes) -> Any:
    """Parse standard JSON.

    Raises:
        ReplayError: the text is something else.
    """
    try:
        return _decode(text if isinstance(text, str) else text.decode())
    except (ValueError, RecursionError) as error:
        raise ReplayError(f"not readable as JSON: {error}") from None


def _structured(plain: Any, into: Any) -> Any:
    try:
        return _quick().structure(plain, into)
    except Exception:  # noqa: BLE001 — the quick reader does not know the field, so the explaining one reads again
        raise ReplayError(_explain(plain, into)) from None


def reply_to_json(run: Run) -> str:
    """Encode a run or paired run, without fields at their defaults and without its case, which the reader has."""
    return _compact(_answers()[type(run)](run))


def reply_from_json(text: bytes, kind: type[Run], case: Case) -> Run:
    """Read what `reply_to_json` wrote about this case.

    Raises:
        ReplayError: as `from_json`.
    """
    return _structured(_with(parse(text), "case", case), kind)


def request_to_json(request: RunRequest) -> str:
    """Encode a request, without fields at their defaults and without its device, which the reader emulates."""
    return _compact(_terse().unstructure(request))


def request_from_json(text: bytes, device: DeviceProfile, kind: type[T] = Case) -> T:
    """Read what `request_to_json` wrote, for this device.  `with_device` does the same for the text of a case.

    Raises:
        ReplayError: as `from_json`.
    """
    plain = parse(text)
    _with(plain.get("case") if kind is not Case and type(plain) is dict else plain, "device", device)
    return _structured(plain, kind)


def _with(plain: Any, field: str, value: object) -> Any:
    """Add a field that the writer left out because the reader knows it."""
    if type(plain) is dict:
        plain[field] = value
    return plain


def with_device(request: str, device: DeviceProfile) -> str:
    """Return the JSON of a whole case, from what `request_to_json` wrote."""
    return f'{request[:-1]},"device":{_device_json(device)}}}'


@lru_cache(maxsize=256)
def _device_json(device: DeviceProfile) -> str:
    return to_json(device)


def warm_up() -> None:
    """Generate the code that reads and writes runs now, so that forked processes inherit it."""
    _answers()
    _terse()
    for kind in (Run, PairedRun, PairedRunRequest, RebuiltRequest):
        _quick().get_structure_hook(kind)
        _quick().get_unstructure_hook(kind)


# --- errors ----------------------------------------------------------------------------------------------------------


class Mismatch(ValueError):
    """A value that is not of the type its field declares."""

    def __init__(self, expected: str, got: object) -> None:
        quote = json.dumps(got, default=str)
        if len(quote) > LONGEST_QUOTE:
            quote = f"{quote[:LONGEST_QUOTE]}…"
        super().__init__(f"expected {expected}, got {quote}")


class Misfit(ValueError):
    """A value whose fields are of the right types, and make no sense; the text begins with the path of a field."""


def structure(converter: Converter, plain: Any, into: type[T]) -> T:
    """Convert parsed JSON into a value.

    Raises:
        ReplayError: it is no such value; `cases[2].dims.T: expected an integer, got "x"`.
    """
    try:
        return converter.structure(plain, into)
    except Exception as error:  # noqa: BLE001 — of any class: cattrs wraps what the hooks raise
        raise ReplayError(_placed(error)) from None


def _explain(plain: Any, into: Any) -> str:
    name = getattr(into, "__name__", str(into))
    try:
        _explaining().structure(plain, into)
    except Exception as error:  # noqa: BLE001 — of any class: cattrs wraps what the hooks raise
        return f"not a {name}: {_placed(error)}"
    return f"not a {name}"


def _placed(error: Exception) -> str:
    """Return the first reason, after the path of the field at fault."""
    reason, _, path = transform_error(error, "$", _describe)[0].rpartition(" @ $")
    path = NAMED_KEY.sub(r".\1", path).lstrip(".")
    if reason.startswith("."):  # of a Misfit: it begins with the rest of the path
        return f"{path}{reason}".lstrip(".")
    return f"{path}: {reason}" if path else reason


def _describe(error: BaseException, _: type | None) -> str:
    match error:
        case KeyError():
            return "missing"
        case ForbiddenExtraKeysError(extra_fields=extra):
            return f"unknown field {', '.join(sorted(extra))}"
        case _:
            return str(error)


# --- strict readers and writers --------------------------------------------------------------------------------------


def _exactly(kind: type, expected: str) -> Hook:
    """Return a reader of exactly one JSON type: `isinstance` would take True for an int.

    cattrs uses the hook of a class for its subclasses too, so a StrEnum arrives at the reader of strings.
    """

    def read(value: Any, into: Any) -> Any:
        if type(value) is not kind:
            raise Mismatch(expected, value)
        return _member(value, into) if into is not kind and issubclass(into, Enum) else value

    return read


def _member(value: Any, enum: type[Enum]) -> Enum:
    try:
        return enum(value)
    except ValueError:
        raise Mismatch(f"one of {', '.join(str(member.value) for member in enum)}", value) from None


def _only(kind: type, expected: str, read: Hook) -> Hook:
    """Return `read`, restricted to exactly one JSON type: a string is a sequence too."""

    def read_only(value: Any, into: Any) -> Any:
        if type(value) is not kind:
            raise Mismatch(expected, value)
        return read(value, into)

    return read_only


def _many(of: Any, converter: Converter) -> Hook:
    """Return a quick reader of a list as a tuple; its errors do not name the element."""
    element = of.__args__[0]
    read = converter.get_structure_hook(element)

    def read_many(value: Any, _: Any) -> Any:
        if type(value) is not list:
            raise Mismatch("a list", value)
        return tuple([read(item, element) for item in value])

    return read_many


def _optional(of: Any, converter: Converter) -> Hook:
    element = next(kind for kind in of.__args__ if kind is not type(None))
    read = converter.get_structure_hook(element)
    return lambda value, _: None if value is None else read(value, element)


def _read_float(value: Any, _: Any = None) -> float:
    if type(value) is float or type(value) is int:
        return float(value)
    if type(value) is dict and list(value) == ["float"] and value["float"] in list(NOT_FINITE):
        return NOT_FINITE[value["float"]]
    raise Mismatch("a number", value)


def _write_float(value: float) -> object:
    return value if isfinite(value) else {"float": str(float(value))}


def _read_scalar(value: Any, _: Any) -> Scalar:
    return value if value is None or isinstance(value, (bool, int, float, str)) else _read_float(value)


def _write_scalar(value: Scalar) -> object:
    return _write_float(value) if isinstance(value, float) else value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _is_tuple_of_many(of: Any) -> bool:
    return get_origin(of) is tuple and of.__args__[-1] is Ellipsis


def _is_tuple_of_few(of: Any) -> bool:
    return get_origin(of) is tuple and of.__args__[-1] is not Ellipsis


def _is_optional(of: Any) -> bool:
    return get_origin(of) in (UnionType, Union) and len(of.__args__) == 2 and type(None) in of.__args__


def _is_mapping(of: Any) -> bool:
    origin = get_origin(of)
    return isinstance(origin, type) and hasattr(origin, "keys")


def _tagged(converter: Converter, union: Any) -> None:
    configure_tagged_union(union, converter, tag_name=TAG)
    known = {member.__name__ for member in union.__args__}
    read = converter.get_structure_hook(union)

    def read_known(value: Any, into: Any) -> Any:
        if type(value) is not dict or TAG not in value:
            raise Mismatch(f"an object with {TAG!r}", value)
        if value[TAG] not in known:
            raise Mismatch(f"a {TAG!r} among {', '.join(sorted(known))}", value[TAG])
        return read(value, into)

    converter.register_structure_hook(union, read_known)


def _converter(*, explaining: bool, terse: bool = False) -> Converter:
    """Return a converter that names the field at fault, or a quick one; a terse one omits fields at their defaults."""
    registry = Converter(forbid_extra_keys=True, detailed_validation=explaining, omit_if_default=terse)
    for kind, expected in ((int, "an integer"), (bool, "true or false"), (str, "a string")):
        registry.register_structure_hook(kind, _exactly(kind, expected))
    registry.register_structure_hook(float, _read_float)
    registry.register_unstructure_hook(float, _write_float)
    registry.register_structure_hook(Scalar, _read_scalar)
    registry.register_unstructure_hook(Scalar, _write_scalar)

    @registry.register_structure_hook_factory(_is_tuple_of_many)
    def many(of: Any, converter: Converter) -> Hook:
        if not explaining:
            return _many(of, converter)
        return _only(list, "a list", homogenous_tuple_structure_factory(of, converter))

    @registry.register_structure_hook_factory(_is_tuple_of_few)
    def few(of: Any, converter: Converter) -> Hook:
        return _only(list, "a list", make_hetero_tuple_structure_fn(of, converter))

    @registry.register_structure_hook_factory(_is_mapping)
    def mapping(of: Any, converter: Converter) -> Hook:
        return _only(dict, "an object", make_mapping_structure_fn(of, converter, dict))

    @registry.register_structure_hook_factory(is_dataclass)
    def fields(of: Any, converter: Converter) -> Hook:
        read = make_dict_structure_fn(of, converter)
        return _only(dict, "an object", read) if explaining else read

    if not explaining:
        registry.register_structure_hook_factory(_is_optional, _optional)
    for kind, names in ((DeviceProfile, ADDED_TO_DEVICES), (Case, ADDED)):
        added: Any = {name: override(omit_if_default=True) for name in names}
        registry.register_unstructure_hook(
            kind, make_dict_unstructure_fn(kind, registry, _cattrs_omit_if_default=terse, **added)
        )
    for union in UNIONS:
        _tagged(registry, union)
    return registry


def document_converter() -> Converter:
    """Return a new converter for `structure`, to which a caller may add hooks."""
    return _converter(explaining=True)


def _cached_reader(read: Hook, most: int) -> Hook:
    """Return `read` with a cache: half of a small run's text is its device, which rarely changes."""
    known: dict[str, Any] = {}

    def read_once(value: Any, into: Any) -> Any:
        text = repr(value)
        if text not in known:
            if len(known) >= most:
                known.clear()
            known[text] = read(value, into)
        return known[text]

    return read_once


def _or_already(of: type, read: Hook) -> Hook:
    """Return `read`, except that a value that is already of the type passes through."""
    return lambda value, into: value if type(value) is of else read(value, into)


@cache
def _quick() -> Converter:
    """Return the quick converter.  Converters are made when they are needed: each takes many milliseconds."""
    converter = _converter(explaining=False)
    read_device = _cached_reader(converter.get_structure_hook(DeviceProfile), most=256)
    converter.register_structure_hook(DeviceProfile, _or_already(DeviceProfile, read_device))
    converter.register_structure_hook(Case, _or_already(Case, converter.get_structure_hook(Case)))
    return converter


@cache
def _terse() -> Converter:
    """Return the writer of requests, which omits what the reader knows."""
    converter = _converter(explaining=False, terse=True)
    converter.register_unstructure_hook(
        Case, make_dict_unstructure_fn(Case, converter, _cattrs_omit_if_default=True, device=override(omit=True))
    )
    return converter


@cache
def _answers() -> Mapping[type[Run], Callable[[Any], Any]]:
    """Return the writers of replies, which omit the case of the request, but not the device of another case."""
    converter = _converter(explaining=False, terse=True)
    return {
        kind: make_dict_unstructure_fn(kind, converter, _cattrs_omit_if_default=True, case=override(omit=True))
        for kind in (Run, PairedRun)
    }


@cache
def _explaining() -> Converter:
    return _converter(explaining=True)


_compact = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode
