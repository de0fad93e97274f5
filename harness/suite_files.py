"""Find suite files without loading them, and name them so that they are found again from any folder."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from harness.errors import SuiteError, unknown
from harness.model.case import HARNESS_FOLDER

MARKERS = (".git", "pyproject.toml")
MODULE_PREFIX = "harness_suite_"
"""The beginning of the names of modules that suite files become."""
SHIPPED = "suites"
"""How the names of the suites begin that come with the harness: `suites/fla/norm.py`, for short `fla:norm`."""
REGRESSIONS = "regressions"
"""The folder of kept findings, in the folder of suites."""
OURS = re.compile(r'"kind"\s*:\s*"(campaign|shard|finding|regression|case)"')
"""What a replay file holds."""
READ_CHARACTERS = 2**16


def suite_files(argument: str) -> tuple[str, ...]:
    """Return the suite files that an argument names: the file itself, or those in the folder.

    If nothing has that path, it may be a suite that comes with the harness: `fla:norm`, or `fla` for all of them.

    Raises:
        SuiteError: the folder holds no suite.
        UsageError: there is no such file or folder.
    """
    path = Path(argument)
    if not path.exists():
        path = shipped_suites() / argument.replace(":", "/")
        path = path if path.is_dir() else path.with_suffix(".py")
        if not path.exists():
            raise unknown("suite", argument, [*_names(Path(SHIPPED)), *_names(shipped_suites(), short=True)])
    if not path.is_dir():
        return (str(path),)
    if files := tuple(str(file) for file in sorted(path.rglob("*.py")) if is_suite(file)):
        return files
    raise SuiteError(f"no suite in the folder {argument!r}: a suite is a Python file that imports harness.suite")


def named_suites(arguments: Iterable[str]) -> tuple[str, ...]:
    """Return the names in cases of the suites that several arguments name, each once.

    Raises:
        SuiteError, UsageError: as `suite_files`.
    """
    return tuple(dict.fromkeys(named_in_project(file) for argument in arguments for file in suite_files(argument)))


def shipped_suites() -> Path:
    """Return the folder of the suites that come with the harness; in a checkout it is the repository's own."""
    beside = Path(__file__).resolve().parents[1]
    installed = beside / "harness_suites"
    return installed if installed.is_dir() else beside / SHIPPED


def located(suite: str, project: Path) -> Path:
    """Return the path of a suite: that of its name in the project, or else of the one that comes with the harness."""
    path = project / suite
    name = Path(suite)
    if path.is_file() or name.parts[:1] != (SHIPPED,):
        return path
    return shipped_suites().joinpath(*name.parts[1:])


def is_shipped(suite: str, project: Path) -> bool:
    """Return True if the suite of this name comes with the harness, so that what it tests is on PyPI."""
    return located(suite, project).resolve().is_relative_to(shipped_suites().resolve())


def _names(folder: Path, *, short: bool = False) -> list[str]:
    """Return the names of the suites in a folder, for example `fla:norm` for short."""
    files = [file for file in sorted(folder.rglob("*.py")) if is_suite(file)]
    return [":".join(file.relative_to(folder).with_suffix("").parts) if short else str(file) for file in files]


def project_of(folder: Path) -> Path:
    """Return the root of the project that a folder belongs to: the nearest folder with `.git` or `pyproject.toml`.

    Without such a folder, it is the given one.  Of a folder inside `.harness`, it is the project that owns `.harness`.
    """
    whole = Path(os.path.normpath(Path.cwd() / folder))
    owner = next(
        (ancestor.parent for ancestor in (whole, *whole.parents) if ancestor.name == HARNESS_FOLDER.name), whole
    )
    return next(
        (ancestor for ancestor in (owner, *owner.parents) if any((ancestor / name).exists() for name in MARKERS)), owner
    )


def named_in_project(file: str) -> str:
    """Return the name of a suite file in cases: relative to the project of the working folder, or else absolute.

    A suite that comes with the harness has the name that it has in the harness's own project.
    """
    path = Path(os.path.normpath(Path.cwd() / file))
    project = project_of(Path.cwd())
    if path.is_relative_to(shipped_suites()):  # first: they may be installed inside the project
        name = _shipped_name(path)
        return name if located(name, project) == path else str(path)
    return str(path.relative_to(project)) if path.is_relative_to(project) else str(path)


def portable_name(file: Path) -> str:
    """Return the name of a suite that draws and signatures depend on: the same wherever the file lies.

    It is the name of the file alone.  A suite that comes with the harness has the name that it has there.
    """
    path = file.resolve()
    return _shipped_name(path) if path.is_relative_to(shipped_suites()) else path.name


def _shipped_name(path: Path) -> str:
    return str(SHIPPED / path.relative_to(shipped_suites()))


def folder_that_holds(suite: str, folders: Iterable[Path]) -> Path | None:
    """Return the first folder in which there is a suite of that name, or for shipped suites any; None if none is."""
    return next((folder for folder in folders if located(suite, folder).is_file()), None)


def is_suite(path: Path) -> bool:
    """Return True if a Python file imports `harness.suite`, and is neither a test nor private."""
    if path.name.startswith(("test_", "_", ".")) or path.name == "conftest.py" or path.stem.endswith("_test"):
        return False
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return "harness.suite" in text or "from harness import suite" in text


def may_be_replayed(file: Path) -> bool:
    """Return True if the file seems to hold recorded cases, even if it is damaged."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return OURS.search(opened.read(READ_CHARACTERS)) is not None
    except OSError:
        return False
