"""What is here and what is missing on this machine, each missing part with the command that provides it.

Nothing under test is imported: releases come from installed metadata, GPUs from NVML, tools from where they lie.
"""

import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from harness.findings.versions import installed

TRITON_TOOLS = ("ptxas", "cuobjdump")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that the harness uses."""

    name: str
    found: str
    """What is there, in words; empty where it is missing."""
    needed: bool
    """Nothing runs without it."""
    provide: str
    """The command that provides it, or what it would be good for."""


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
    yield Part(
        name="NVML",
        found=installed("nvidia-ml-py"),
        needed=False,
        provide="pip install nvidia-ml-py (to see the GPUs of this machine; none is needed)",
    )
    yield Part(name="GPU", found=_gpus(), needed=False, provide="none is needed: every device is virtual")
    yield Part(
        name="compute-sanitizer",
        found=_sanitizer(),
        needed=False,
        provide="pip install nvidia-cuda-sanitizer-api (useful with a GPU only)",
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
    if found := _on_path("compute-sanitizer"):
        return found
    try:
        files = distribution("nvidia-cuda-sanitizer-api").files or ()
    except PackageNotFoundError:
        return ""
    return next((str(Path(str(file.locate())).resolve()) for file in files if file.name == "compute-sanitizer"), "")


def _gpus() -> str:
    try:
        import pynvml  # pyright: ignore[reportMissingImports] # noqa: PLC0415 -- optional
    except ImportError:
        return ""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ""
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return ", ".join(str(pynvml.nvmlDeviceGetName(handle)) for handle in handles)
    finally:
        pynvml.nvmlShutdown()
