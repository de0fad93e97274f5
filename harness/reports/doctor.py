"""What is here and what is missing on this machine, each missing part with the command that provides it.

Nothing under test is imported: releases come from installed metadata, GPUs from the driver, in a child process, tools
from where they lie.
"""

import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from harness.cuda.sanitizers import instrumentation, sanitizer_command
from harness.errors import MissingPart
from harness.findings.versions import installed
from harness.model.triton_sanitizer_report import Instrumentation
from harness.reports.gpu_doctor import Part, gpu_parts

TRITON_TOOLS = ("ptxas", "cuobjdump")


def examine() -> Iterator[Part]:
    """Every part, needed ones first."""
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
    yield from gpu_parts()
    yield Part(
        name="compute-sanitizer",
        found=_sanitizer(),
        needed=False,
        provide=f"{sanitizer_command.PROVIDE} (for --sanitizer, with a GPU only)",
    )
    yield Part(
        name="Triton's sanitizers",
        found=_in_this_triton(),
        needed=False,
        provide=f"{instrumentation.PROVIDE} (for --sanitizer {', '.join(Instrumentation)}, with a GPU only)",
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
    return next((found for name in names if (found := shutil.which(name))), "")


def _sanitizer() -> str:
    try:
        known = sanitizer_command.ask(sanitizer_command.find())
    except MissingPart:
        return ""
    return f"{known.version} ({known.path})"


def _in_this_triton() -> str:
    release = installed("triton")
    return f"{', '.join(Instrumentation)} of Triton {release}" if release and instrumentation.works_in(release) else ""
