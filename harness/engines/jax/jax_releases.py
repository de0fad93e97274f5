"""The releases of JAX and jax-triton whose private names the harness knows, and the check of those installed."""

import importlib.metadata

from harness.errors import MissingPart
from harness.extras import PINNED, install_command

LIBRARY = "jax_triton.triton_lib"
"""The module of jax-triton that compiles and lowers kernel calls."""


def missing_release() -> str:
    """Return the error for a JAX that is missing or of another release; empty if all is as it should be."""
    wrong = list[str]()
    for name, known in PINNED["jax"].items():
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{name} is not installed")
            continue
        if installed != known:
            wrong.append(f"{name} {installed} is installed")
    if not wrong:
        return ""
    releases = " and ".join(f"{name} {known}" for name, known in PINNED["jax"].items())
    return f"JAX on the virtual GPU works with {releases}, but {', '.join(wrong)}: {install_command('jax')}"


def check_releases() -> None:
    """Check that the installed releases are the known ones.

    Raises:
        MissingPart: one is missing or another.
    """
    if problem := missing_release():
        raise MissingPart(problem)
