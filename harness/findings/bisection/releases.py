"""The releases of a package that pip offers to this Python.

This asks pip and no index, so that mirrors, extra indexes, folders of wheels, proxies and certificates work as they do
for an installation.  pip leaves out pre-releases, yanked releases and those for other Pythons.
"""

import difflib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from harness import libraries
from harness.errors import LibraryError, SuiteError, UsageError, unknown
from harness.suite import load_suite
from harness.suite_files import is_suite

SUITES = Path("suites")
PIP_LIMIT_S = 300.0
NEAR = 0.5
"""The least similarity of two names, 0 to 1."""
OFFERED = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
UNREACHABLE = "WARNING: Retrying ("
"""pip prints this for an index that it cannot reach, before it reports that the package does not exist."""


def offered(package: str, cache: Path) -> tuple[Version, ...]:
    """Return the releases that can be installed here, ascending.

    Raises:
        UsageError: the package does not exist; the message names similar packages.
        LibraryError: the index cannot be reached.
        MissingPart: pip is not installed.
    """
    if find_spec("pip") is None:
        raise libraries.pip_missing("listing releases")
    package = package.removeprefix(libraries.SOURCES)
    command = [sys.executable, "-m", "pip", "index", "versions", *libraries.PIP_OPTIONS, package]
    try:
        finished = libraries.run_pip(command, PIP_LIMIT_S, PIP_NO_COLOR="1")
    except subprocess.TimeoutExpired:
        raise LibraryError(f"pip lists no releases of {package}: no answer within {PIP_LIMIT_S:g} s") from None
    if offer := OFFERED.search(finished.stdout):
        return tuple(sorted(Version(version) for version in offer[1].split(", ")))
    known = _similar(package, cache)
    if UNREACHABLE in finished.stderr or canonicalize_name(package) in known:
        last = (finished.stderr.strip().splitlines() or [f"pip ended with {finished.returncode}"])[-1]
        raise LibraryError(f"pip lists no releases of {package}: {last}. To see more: {shlex.join(command)} -v")
    raise unknown("package", package, known)


def version_of(text: str, option: str) -> Version:
    """Return the release that an option names.

    Raises:
        UsageError: the text is not a version.
    """
    try:
        return Version(text)
    except InvalidVersion:
        raise UsageError(f"{option} {text!r} is no version such as 0.5.2") from None


def requirement_of(spec: str) -> Requirement | None:
    """Return the requirement that a `--with` holds; None for a folder or an archive."""
    if os.sep in spec or spec.endswith(libraries.ARCHIVES) or Path(spec).exists():
        return None
    try:
        return Requirement(spec.removeprefix(libraries.SOURCES))
    except InvalidRequirement:
        return None


def names_package(spec: str, package: str) -> bool:
    """Return True if a `--with` names this package."""
    requirement = requirement_of(spec)
    name = canonicalize_name(package.removeprefix(libraries.SOURCES))
    return requirement is not None and canonicalize_name(requirement.name) == name


def pinned_release(spec: str) -> str | None:
    """Return the one release that a `--with` allows; None if it allows several."""
    requirement = requirement_of(spec)
    exact = [pin.version for pin in requirement.specifier if pin.operator == "=="] if requirement else []
    return exact[0] if len(exact) == 1 and not exact[0].endswith(".*") else None


def _similar(package: str, cache: Path) -> set[str]:
    """Return packages that the user may have meant: those under test, and installed ones with a similar name."""
    installed = {canonicalize_name(distribution.metadata["Name"]) for distribution in distributions()}
    near = difflib.get_close_matches(canonicalize_name(package), installed, cutoff=NEAR)
    return {*_required_by_suites(), *_cached(cache), *near}


def _cached(cache: Path) -> Iterator[str]:
    for folder in cache.glob(f"libraries/*-{libraries.PYTHON_TAG}"):
        yield from (canonicalize_name(package.metadata["Name"]) for package in distributions(path=[str(folder)]))


def _required_by_suites() -> Iterator[str]:
    for file in filter(is_suite, SUITES.rglob("*.py")):
        with suppress(SuiteError):  # a broken suite is reported when it is used
            ops = load_suite(str(file))
            yield from (libraries.name_of(name) for op in ops for names in op.libraries for name in names)
