"""What a project decides for its searches: `harness.toml`, or the table `[tool.kernel-harness]` of `pyproject.toml`.

Options of the command line, and of pytest, replace these settings.
"""

import argparse
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError, unknown


class JoinedByCommas(argparse.Action):
    """The action of options whose value is a list with commas: a repeated option adds to its list."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        del parser, option
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, f"{before},{values}" if before else values)


FILE = "pyproject.toml"
OWN_FILE = "harness.toml"
TABLE = "kernel-harness"
NIGHT = "night"
"""The table for `harness night`, which `harness.night.night_settings` reads."""
NAMES = ("device", "with", NIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSettings:
    """The settings of one project; the defaults are those of a project without the table."""

    device: str | None = None
    """GPUs to emulate, as `--device` takes them."""
    libraries: tuple[str, ...] = ()
    """Libraries under test, as `--with` takes them; paths are absolute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsTable:
    """The table as it is written, and where."""

    place: str
    """For messages: `pyproject.toml: [tool.kernel-harness]`."""
    values: Mapping[str, Any]


def read_project_settings(project: Path) -> ProjectSettings:
    """Read the settings of the project in this folder.

    Raises:
        UsageError: the file or a setting is wrong; the text names it.
    """
    return settings_in(read_table(project), project)


def settings_in(table: SettingsTable, project: Path) -> ProjectSettings:
    """Return the settings that a table of the project holds.

    Raises:
        UsageError: a setting is wrong; the text names it.
    """
    device, libraries = table.values.get("device"), table.values.get("with", [])
    if device is not None and not isinstance(device, str):
        raise UsageError(f'{table.place} device = {device!r}: write a text, as "h200,rtx-5090"')
    if not isinstance(libraries, list) or not all(isinstance(library, str) for library in libraries):
        raise UsageError(f'{table.place} with = {libraries!r}: write a list of texts, as ["."]')
    return ProjectSettings(device=device, libraries=tuple(placed(library, project) for library in libraries))


def read_table(project: Path, file: Path | None = None) -> SettingsTable:
    """Read the table: of this file, or else of the project's `harness.toml`, or else of its `pyproject.toml`.

    Raises:
        UsageError: the file is wrong, or has a setting that does not exist; the text names it.
    """
    own = file or project / OWN_FILE
    if own.name != FILE and (file is not None or own.is_file()):
        table, place = _parsed(own), f"{own}:"
    else:
        path = file or project / FILE
        tool: Any = _parsed(path).get("tool", {}) if file is not None or path.is_file() else {}
        table = tool.get(TABLE, {}) if isinstance(tool, dict) else {}
        place = f"{path}: [tool.{TABLE}]"
    for name in table:
        if name not in NAMES:
            raise UsageError(f"{place} {unknown('setting', name, NAMES)}")
    return SettingsTable(place=place, values=table)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def placed(spec: str, project: Path) -> str:
    """Return a spec whose relative path refers to the project, not to the working folder."""
    path = Path(os.path.normpath(Path.cwd() / project / spec))
    return str(path) if path.exists() else spec
