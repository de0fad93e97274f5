"""The releases that decide results, read from installed metadata: nothing is imported, nothing is started."""

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

DECIDE = ("kernel-harness", "triton", "torch", "numpy", "hypothesis")


def versions() -> Mapping[str, str]:
    """By distribution, and Python itself; what is not installed is left out."""
    found = {name: installed(name) for name in DECIDE}
    return {"python": platform.python_version(), **{name: known for name, known in found.items() if known}}


def installed(distribution: str) -> str:
    """The release that is installed; empty if none is."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
