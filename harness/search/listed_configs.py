"""The configs that an installed library lists for each device: read from its tables, without importing it."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from glob import escape
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from harness.errors import SuiteError
from harness.model.device import DeviceProfile
from harness.model.host_configs import DEVICE, ConfigPlace, HostConfigs, ListedConfig, config_text
from harness.model.op import Op

PLACEHOLDER = re.compile(r"\{(\w+)\}|\*")
NO_SIZES = range(0)


def with_listed_configs(op: Op, devices: Iterable[DeviceProfile], folders: Iterable[str]) -> Op:
    """Return the op with the configs that are listed for the devices; the library may lie in these folders.

    Raises:
        SuiteError: a table of the library is no JSON.
    """
    if not op.host_configs:
        return op
    profiles, paths = tuple(devices), tuple(folders)

    def complete(function: str, declared: HostConfigs) -> HostConfigs:
        folder = _folder(function, paths)
        return replace(
            declared, listed={device.slug: tuple(_listed(op, declared, device, folder)) for device in profiles}
        )

    return replace(op, host_configs={name: complete(name, declared) for name, declared in op.host_configs.items()})


def labels(op: Op, device: DeviceProfile) -> tuple[str, ...]:
    """Return the labels of all configs that host code of the op may pick on a device."""
    return tuple(
        listed.label(function)
        for function, declared in op.host_configs.items()
        for listed in declared.listed.get(device.slug, ())
    )


def _listed(op: Op, declared: HostConfigs, device: DeviceProfile, folder: Path | None) -> Iterator[ListedConfig]:
    """Yield each config once, with all places that list it for cases of the op."""
    places: dict[str, list[ConfigPlace]] = {}
    for config in (*declared.configs, *declared.by_device.get(device.slug, ())):
        places.setdefault(config_text(config), []).append(ConfigPlace())
    own = device.name.replace(" ", "_")
    names = {own, *(name for name, slug in declared.devices.items() if slug == device.slug)}
    for path, fields in (found for pattern in declared.tables if folder for found in _tables(folder, pattern)):
        settings = {name: value for name, value in fields.items() if name != DEVICE}
        if fields.get(DEVICE, own) not in names or not _has_settings(op, settings):
            continue
        for place, config in _keyed(path) if declared.nearest else _unkeyed(path):
            places.setdefault(config_text(config), []).append(replace(place, table=path.name, settings=settings))
    return (ListedConfig(config=config, places=tuple(where)) for config, where in places.items())


def _has_settings(op: Op, settings: Mapping[str, str]) -> bool:
    """Return True if the op's dims may have such sizes, or smaller ones in their place, and its options such values."""
    for name, value in settings.items():
        dim = op.dims.get(name)
        choices = op.options[name] if dim is None else dim.choices
        if choices and value not in map(str, choices):
            return False
    return True


@cache
def _tables(folder: Path, pattern: str) -> tuple[tuple[Path, Mapping[str, str]], ...]:
    """Return the files of this pattern in the order of their names, with the fields of the names."""
    globbed, matched, end = "", "", 0
    for part in PLACEHOLDER.finditer(pattern):
        between = pattern[end : part.start()]
        globbed += f"{escape(between)}*"
        matched += re.escape(between) + (f"(?P<{part[1]}>[^/,]+)" if part[1] else "[^/]*")
        end = part.end()
    expression = re.compile(matched + re.escape(pattern[end:]))
    paths = sorted(folder.glob(re.sub(r"\*+", "*", globbed + escape(pattern[end:]))))
    found = ((path, expression.fullmatch(path.relative_to(folder).as_posix())) for path in paths)
    return tuple((path, fields.groupdict()) for path, fields in found if fields)


def _keyed(table: Path) -> Iterator[tuple[ConfigPlace, Any]]:
    """Yield what a table lists under numbers; other members, such as a version, are no configs."""
    by_key = {int(key): config for key, config in _plain(table).items() if key.isdigit()}
    for key, config in by_key.items():
        yield ConfigPlace(key=key, span=_span(key, by_key)), config


def _unkeyed(table: Path) -> Iterator[tuple[ConfigPlace, Any]]:
    """Yield the members of a list, or the whole table as one config."""
    plain = _plain(table)
    yield from ((ConfigPlace(), config) for config in (plain if isinstance(plain, list) else [plain]))


def _plain(table: Path) -> Any:
    try:
        return json.loads(table.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SuiteError(f"{table} lists configs, and is no JSON: {error}") from None


def _span(key: int, keys: Iterable[int]) -> range:
    """Return the sizes that are nearer to the key than to others; past the largest key up to its double."""
    below = max((other for other in keys if other < key), default=-key)
    above = min((other for other in keys if other > key), default=3 * key)
    return range((below + key) // 2 + 1, (key + above + 1) // 2)


def _folder(function: str, folders: tuple[str, ...]) -> Path | None:
    """Return the folder of the function's module; None if its package is not there."""
    root, *parts = function.partition(":")[0].split(".")
    spec = PathFinder.find_spec(root, list(folders)) or PathFinder.find_spec(root)
    inside = spec and (spec.submodule_search_locations or (spec.origin and [str(Path(spec.origin).parent)]))
    if not inside:
        return None
    folder = Path(next(iter(inside)))
    for part in parts:
        folder = folder / part if (folder / part).is_dir() else folder
    return folder
