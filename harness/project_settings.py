"""What a project decides for its searches: the table `[tool.kernel-harness]` of its `pyproject.toml`.

Options of the command line, and of pytest, replace these settings.
"""

import argparse
import os
import tomllib
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
TABLE = "kernel-harness"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSettings:
    """The settings of one project; the defaults are those of a project without the table."""

    device: str | None = None
    """GPUs to emulate, as `--device` takes them."""
    libraries: tuple[str, ...] = ()
    """Libraries under test, as `--with` takes them; paths are absolute."""


def read_project_settings(project: Path) -> ProjectSettings:
    """Read the settings of the project in this folder.

    Raises:
        UsageError: the file or a setting is wrong; the text names it.
    """
    path = project / FILE
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ProjectSettings()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    tool: Any = document.get("tool", {})
    table: Any = tool.get(TABLE, {}) if isinstance(tool, dict) else {}
    place = f"{path}: [tool.{TABLE}]"
    for name in table:
        if name not in {"device", "with"}:
            raise UsageError(f"{place} {unknown('setting', name, ('device', 'with'))}")
    device, libraries = table.get("device"), table.get("with", [])
    if device is not None and not isinstance(device, str):
        raise UsageError(f'{place} device = {device!r}: write a text, as "h200,rtx-5090"')
    if not isinstance(libraries, list) or not all(isinstance(library, str) for library in libraries):
        raise UsageError(f'{place} with = {libraries!r}: write a list of texts, as ["."]')
    return ProjectSettings(device=device, libraries=tuple(_placed(library, project) for library in libraries))


def _placed(spec: str, project: Path) -> str:
    """Return a spec whose relative path refers to the project, not to the working folder."""
    path = Path(os.path.normpath(Path.cwd() / project / spec))
    return str(path) if path.exists() else spec
