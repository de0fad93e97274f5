"""The parts that this machine has or lacks, each missing one with the command that provides it.

Nothing under test is imported.  Releases come from installed metadata, GPUs from the driver in a child process, and
tools from their paths.
"""

import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from harness.engines.cuda.sanitizers import instrumentation, sanitizer_command
from harness.errors import MissingPart
from harness.extras import EXTRAS, install_command
from harness.findings.versions import installed
from harness.model.triton_sanitizer_report import Instrumentation
from harness.reports.gpu_doctor import Part, gpu_parts
from harness.settings import Settings

TRITON_TOOLS = ("ptxas", "cuobjdump")
EXTRA_PURPOSES = {
    "repro": "packages for harness repro",
    "report": "packages for the page of harness report",
    "cluster": "packages for harness fuzz --ray",
    "jax": "packages for suites that call JAX",
    "suites": "packages that the libraries of suites such as fla:norm import",
}


def examine(settings: Settings) -> Iterator[Part]:
    """Yield every part, required ones first."""
    yield Part(name="Python", found=f"{platform.python_version()} ({sys.executable})", needed=True, provide="")
    for name in ("torch", "triton", "numpy", "hypothesis"):
        yield Part(name=name, found=installed(name), needed=True, provide=f"pip install {name}")
    for tool in TRITON_TOOLS:
        yield Part(
            name=f"{tool} of Triton",
            found=_in_triton(tool),
            needed=False,
            provide="pip install --force-reinstall triton (for registers, spills and shared memory)",
        )
    yield Part(name="C compiler", found=_on_path("cc", "gcc", "clang"), needed=False, provide="apt-get install gcc")
    yield Part(
        name="pytest",
        found=installed("pytest"),
        needed=False,
        provide="pip install pytest pytest-xdist (for suites as tests)",
    )
    for extra, purpose in EXTRA_PURPOSES.items():
        yield _extra(extra, purpose)
    yield from gpu_parts(settings)
    yield Part(
        name=sanitizer_command.NAME,
        found=_sanitizer(settings),
        needed=False,
        provide=f"{sanitizer_command.INSTALL} (for --sanitizer, with a GPU only)",
    )
    yield Part(
        name="Triton's sanitizers",
        found=_in_this_triton(),
        needed=False,
        provide=f"{instrumentation.INSTALL} (for --sanitizer {', '.join(Instrumentation)}, with a GPU only)",
    )


def _extra(extra: str, purpose: str) -> Part:
    """Return the part for an extra, which is found if all its packages are installed."""
    releases = {package: installed(package) for package in EXTRAS[extra]}
    listed = ", ".join(f"{package} {release}" for package, release in releases.items())
    return Part(
        name=purpose,
        found=listed if all(releases.values()) else "",
        needed=False,
        provide=install_command(extra),
    )


def _in_triton(tool: str) -> str:
    try:
        files = distribution("triton").files or ()
    except PackageNotFoundError:
        return ""
    return next(
        (str(Path(str(file.locate())).resolve()) for file in files if file.name == tool and "nvidia" in file.parts), ""
    )


def _on_path(*names: str) -> str:
    return next((path for name in names if (path := shutil.which(name))), "")


def _sanitizer(settings: Settings) -> str:
    try:
        known = sanitizer_command.probe(sanitizer_command.find(settings))
    except MissingPart:
        return ""
    return f"{known.version} ({known.path})"


def _in_this_triton() -> str:
    release = installed("triton")
    return f"{', '.join(Instrumentation)} of Triton {release}" if release and instrumentation.works_in(release) else ""
