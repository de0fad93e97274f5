"""Optional dependencies: what each extra of `kernel-harness` installs, and the command that installs it.

`harness fuzz` needs none of them.  `pyproject.toml` lists the same extras with version ranges.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType

from harness.errors import MissingPart

EXTRAS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "repro": ("libcst", "ruff"),
        "report": ("jinja2", "pygments"),
        "cluster": ("ray",),
        "jax": ("jax", "jaxlib", "jax-triton"),
        "suites": ("einops",),
    }
)
"""The packages of each extra.  Each is imported under the name by which it is installed, with _ for -."""

PINNED: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"jax": MappingProxyType({"jax": "0.10.2", "jaxlib": "0.10.2", "jax-triton": "0.3.1"})}
)
"""By extra, the only releases that work: the harness touches private names of theirs."""


def install_command(extra: str) -> str:
    return f"pip install 'kernel-harness[{extra}]'"


def remedy_for_import(package: str) -> str:
    """Return what to do for a package that a library under test imports.

    A package of no extra is not suggested by its name: its distribution may have another one.
    """
    if package in EXTRAS["suites"]:
        return install_command("suites")
    return "install what has it, since --with takes a library without its dependencies"


def missing_dependency(purpose: str, error: ModuleNotFoundError) -> MissingPart:
    """Return the error for a plain dependency of the harness, as after `pip install --no-deps`."""
    package = (error.name or "").partition(".")[0]
    return MissingPart(f"{purpose} needs {package}, which is not installed: pip install kernel-harness")


def require(extra: str, purpose: str) -> None:
    """Check that every package of an extra is installed.

    Raises:
        MissingPart: one is not; `purpose` begins the message.
    """
    if missing := [name for name in EXTRAS[extra] if find_spec(name.replace("-", "_")) is None]:
        raise MissingPart(f"{purpose} needs {' and '.join(missing)}: {install_command(extra)}")
