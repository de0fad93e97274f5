"""The two Tritons of an upgrade: releases, wheels or checkouts, each installed into a folder of its own."""

from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from harness import libraries
from harness.errors import LibraryError, UsageError
from harness.findings.triton_process import PACKAGE, InstalledTriton, supported


def installed_triton(text: str, cache: Path) -> InstalledTriton:
    """Install a Triton, unless it is in the cache.

    Args:
        text: a release, `3.9.0`; or a wheel, or the folder of a checkout, which pip builds.
        cache: the harness's cache.

    Raises:
        UsageError: the text names neither, or a release for which the harness is not written.
        LibraryError: it cannot be installed, or something else was.
    """
    (folder,) = libraries.resolve([_spec(text)], cache=cache)
    installed = next(
        (each for each in distributions(path=[folder]) if canonicalize_name(each.metadata["Name"]) == PACKAGE), None
    )
    if installed is None:
        raise LibraryError(f"{text} is no Triton: pip installs no distribution {PACKAGE} from it")
    _refuse_unsupported(Version(installed.version), text)
    return InstalledTriton(folder=Path(folder), version=installed.version)


def is_release(text: str) -> bool:
    """Return True for the version of a release."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return not Path(text).exists()


def _spec(text: str) -> str:
    if is_release(text):
        _refuse_unsupported(Version(text), text)
        return f"{PACKAGE}=={text}"
    path = Path(text).expanduser()
    if not path.exists():
        raise UsageError(
            f"{text!r} is neither a release of Triton such as 3.9.0, nor a wheel, nor the folder of a checkout"
        )
    return libraries.absolute_path(text)


def _refuse_unsupported(version: Version, text: str) -> None:
    if not supported().contains(Version(version.base_version), prereleases=True):
        raise UsageError(f"{text}: the harness works with triton{supported()}")
