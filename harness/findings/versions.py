"""The releases of the distributions that decide results, read from installed metadata without any import."""

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

DECIDE = ("kernel-harness", "triton", "torch", "numpy", "hypothesis")


def versions() -> Mapping[str, str]:
    """Return the releases of Python and of the installed distributions, by name."""
    releases = {name: installed(name) for name in DECIDE}
    return {"python": platform.python_version(), **{name: known for name, known in releases.items() if known}}


def installed(distribution: str) -> str:
    """Return the installed release; empty if there is none."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
