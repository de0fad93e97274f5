"""Find suite files without loading them, and name them so that they are found again from any folder."""

import os
from collections.abc import Iterable
from pathlib import Path

from harness.errors import SuiteError, unknown

MARKERS = (".git", "pyproject.toml")


def suite_files(given: str) -> tuple[str, ...]:
    """Return the suite files that an argument names: the file itself, or those in the folder.

    Raises:
        SuiteError: the folder holds no suite.
        UsageError: there is no such file or folder.
    """
    path = Path(given)
    if not path.exists():
        raise unknown("suite", given, [str(file) for file in Path("suites").rglob("*.py") if is_suite(file)])
    if not path.is_dir():
        return (given,)
    if files := tuple(str(file) for file in sorted(path.rglob("*.py")) if is_suite(file)):
        return files
    raise SuiteError(f"no suite in the folder {given!r}: a suite is a Python file that imports harness.suite")


def all_suite_files(given: list[str]) -> tuple[str, ...]:
    """Return the suite files that several arguments name, each once.

    Raises:
        SuiteError, UsageError: as `suite_files`.
    """
    return tuple(dict.fromkeys(file for argument in given for file in suite_files(argument)))


def project_of(folder: Path) -> Path:
    """Return the root of the project that a folder belongs to: the nearest folder with `.git` or `pyproject.toml`.

    Without such a folder, it is the given one.  Of a folder inside `.harness`, it is the project that owns `.harness`.
    """
    whole = Path(os.path.normpath(Path.cwd() / folder))
    owner = next((one.parent for one in (whole, *whole.parents) if one.name == ".harness"), whole)
    return next((one for one in (owner, *owner.parents) if any((one / name).exists() for name in MARKERS)), owner)


def named_in_project(file: str) -> str:
    """Return the name of a suite file in cases: relative to the project of the working folder, or else absolute."""
    path = Path(os.path.normpath(Path.cwd() / file))
    project = project_of(Path.cwd())
    return str(path.relative_to(project)) if path.is_relative_to(project) else str(path)


def folder_that_holds(suite: str, folders: Iterable[Path]) -> Path | None:
    """Return the first folder in which there is a suite of that name; None if there is none."""
    return next((folder for folder in folders if (folder / suite).is_file()), None)


def is_suite(path: Path) -> bool:
    """Return True if a Python file imports `harness.suite`, and is neither a test nor private."""
    if path.name.startswith(("test_", "_", ".")) or path.name == "conftest.py":
        return False
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return "harness.suite" in text or "from harness import suite" in text
