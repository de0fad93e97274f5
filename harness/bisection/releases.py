"""Which releases of a package there are: what pip offers to this Python, from wherever pip is told to look.

pip is asked rather than an index, so that mirrors, extra indexes, folders of wheels, proxies and certificates count as
they do when a release is installed.  It leaves out pre-releases, yanked releases and those for other Pythons.
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
from harness.errors import LibraryError, MissingPart, SuiteError, UsageError, unknown
from harness.search.options import is_suite
from harness.suite import load_suite

SUITES = Path("suites")
NEAR = 0.5
"""How alike two names must be, from 0 to 1."""
OFFERED = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
UNREACHABLE = "WARNING: Retrying ("
"""What pip says of an index that it cannot reach, before it says that there is no such package."""


def offered(package: str) -> tuple[Version, ...]:
    """The releases that can be installed here, ascending.

    Raises:
        UsageError: there is no such package; the text names the nearest that are known here.
        LibraryError: the index cannot be asked.
        MissingPart: there is no pip.
    """
    if find_spec("pip") is None:
        raise MissingPart(f"listing releases needs pip: {sys.executable} -m ensurepip")
    command = [sys.executable, "-m", "pip", "index", "versions", "--disable-pip-version-check", "--no-input", package]
    finished = subprocess.run(
        command,
        env=os.environ | {"PIP_NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if found := OFFERED.search(finished.stdout):
        return tuple(sorted(Version(one) for one in found[1].split(", ")))
    known = _alike(package)
    if UNREACHABLE in finished.stderr or canonicalize_name(package) in known:
        last = (finished.stderr.strip().splitlines() or [f"pip ended with {finished.returncode}"])[-1]
        raise LibraryError(f"pip lists no releases of {package}: {last}. To see more: {shlex.join(command)} -v")
    raise unknown("package", package, known)


def version_of(text: str, option: str) -> Version:
    """The release that an option names.

    Raises:
        UsageError: it is no version.
    """
    try:
        return Version(text)
    except InvalidVersion:
        raise UsageError(f"{option} {text!r} is no version such as 0.5.2") from None


def requirement_of(spec: str) -> Requirement | None:
    """What a `--with` asks pip's index for; None for a folder or an archive."""
    if os.sep in spec or spec.endswith(libraries.ARCHIVES) or Path(spec).exists():
        return None
    try:
        return Requirement(spec)
    except InvalidRequirement:
        return None


def asks_for(spec: str, package: str) -> bool:
    """Whether a `--with` names this package."""
    requirement = requirement_of(spec)
    return requirement is not None and canonicalize_name(requirement.name) == canonicalize_name(package)


def pinned(spec: str) -> str | None:
    """The one release that a `--with` allows; None where it allows several."""
    requirement = requirement_of(spec)
    exact = [one.version for one in requirement.specifier if one.operator == "=="] if requirement else []
    return exact[0] if len(exact) == 1 and not exact[0].endswith(".*") else None


def _alike(package: str) -> set[str]:
    """Names of packages that the user may have meant: those under test, and any that is installed and sounds alike."""
    installed = {canonicalize_name(one.metadata["Name"]) for one in distributions()}
    near = difflib.get_close_matches(canonicalize_name(package), installed, cutoff=NEAR)
    return {*_required_by_suites(), *_cached(), *near}


def _cached() -> Iterator[str]:
    for folder in libraries.cache_folder().glob(f"libraries/*-{libraries.PYTHON_TAG}"):
        yield from (canonicalize_name(one.metadata["Name"]) for one in distributions(path=[str(folder)]))


def _required_by_suites() -> Iterator[str]:
    for file in filter(is_suite, SUITES.rglob("*.py")):
        with suppress(SuiteError):  # what is wrong with a suite is told when it is used
            yield from (name for op in load_suite(str(file)) for name in op.requires)
