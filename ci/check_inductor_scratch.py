"""Checks how much scratch memory Inductor's C++ wrapper gives kernels that make tensor descriptors, without a GPU.

    python -m ci.check_inductor_scratch --torch 2.11.0 --torch 2.13.0

The wrappers of a program with two such kernels are generated as on a GPU that is not there (`ci/generate_wrappers.py`).
The functions that launch the kernels are written by the code of each release, from its macOS wheel on PyPI.  Their
expressions for grid and scratch memory are evaluated for drawn sizes.

Exit status: 0 if all allocate enough, 1 if one allocates too little, 2 if a release cannot be had or its wrapper is not
in a known form.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Self

from filelock import FileLock
from hypothesis import find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from ci.wrapper_scratch import Integer, LaunchFunction, UnknownForm, launch_arguments, launch_functions
from harness.catalogue import find as find_device
from harness.errors import UsageError
from harness.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
RELEASES = ("2.8.0", "2.9.0", "2.9.1", "2.10.0", "2.11.0", "2.12.0", "2.12.1", "2.13.0", "2.14.0", "2.14.1")
GRIDS = 500
MOST_PROGRAMS = 2**32
"""Of a grid; the scratch memory of 2^32 programs is 1 TiB."""
PLATFORMS = ("macosx_14_0_arm64", "macosx_11_0_arm64")
"""Their wheels have the same Python sources as those for CUDA, and about 80 MB instead of gigabytes."""


class NoWrapper(Exception):
    """A release cannot be had, or its code does not run here."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of the program's inputs that decide the grid."""

    rows: int
    y: int
    z: int

    def grid(self, block: int) -> tuple[int, int, int]:
        return -(-self.rows // block), self.y, self.z


@dataclass(frozen=True, slots=True)
class Shortage:
    """A launch that gets less scratch memory than it needs."""

    kernel: str
    grid: tuple[int, int, int]
    needed: int
    allocated: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of the wrapper, under one autotune config."""

    function: LaunchFunction
    arguments: Mapping[str, str]
    """The expressions of its call, by parameter."""
    config: int
    build: Mapping[str, int]
    """The fields of `Build` in `generate_wrappers.py`."""

    def shortage(self, sizes: Mapping[str, Integer], expected: Sizes) -> Shortage | None:
        """Return what the launch lacks at sizes, which are given by their names in the wrapper, too.

        Raises:
            UnknownForm: an expression is not in a known form, or the grid is not the one that the program asks for.
        """
        names = self.function.names(self.arguments, sizes)
        names[f"{self.function.kernel}_result.global_scratch"] = Integer(self.build["scratch_bytes"], 32)
        grid, allocated = self.function.launch(names, self.config)
        if grid != expected.grid(self.build["block"]):
            raise UnknownForm(f"{self.function.kernel} launches the grid {grid} for {expected}")
        needed = prod(grid) * self.build["ctas"] * self.build["scratch_bytes"]
        return Shortage(self.function.kernel, grid, needed, allocated) if allocated < needed else None


@dataclass(frozen=True, slots=True)
class Wrapper:
    """One generated wrapper."""

    launches: Sequence[Launch]
    symbols: Mapping[str, str]
    """Its names for the fields of `Sizes`."""

    @classmethod
    def read(cls, text: str, symbols: Mapping[str, str], builds: Mapping[str, Sequence[Mapping[str, int]]]) -> Self:
        """Read the launches of the kernels that have builds, one for each autotune config.

        Raises:
            UnknownForm: the text is not in a known form, or lacks a kernel.
        """
        functions = {name.rpartition("_")[0]: function for name, function in launch_functions(text).items()}
        needing = [kernel for kernel in builds if any(build["scratch_bytes"] for build in builds[kernel])]
        if missing := [kernel for kernel in needing if kernel not in functions]:
            raise UnknownForm(f"no function launches {missing[0]} with scratch memory")
        launches = [
            Launch(function, launch_arguments(text, function), config, builds[kernel][config])
            for kernel in needing
            for function in [functions[kernel]]
            for config in function.grids
        ]
        return cls(launches, symbols)

    def shortages(self, sizes: Sizes) -> list[Shortage]:
        """Return the launches that get too little."""
        named = {symbol: Integer(getattr(sizes, size)) for size, symbol in self.symbols.items()}
        found = (launch.shortage(named, sizes) for launch in self.launches)
        return [shortage for shortage in found if shortage]

    def smallest_shortage(self) -> Shortage | None:
        """Return a launch with a smallest grid that gets too little; None if all drawn ones get enough."""
        self.shortages(Sizes(1, 1, 1))  # raises UnknownForm outside of Hypothesis
        options = settings(
            max_examples=GRIDS,
            derandomize=True,
            database=None,
            deadline=None,
        )
        try:
            return self.shortages(find(drawn_sizes(), lambda sizes: bool(self.shortages(sizes)), settings=options))[0]
        except NoSuchExample:
            return None


@st.composite
def drawn_sizes(draw: st.DrawFn) -> Sizes:
    rows = draw(st.integers(1, 2**31 - 1))
    left = MOST_PROGRAMS // Sizes(rows, 1, 1).grid(16)[0]
    y = draw(st.integers(1, min(65535, left)))
    z = draw(st.integers(1, min(65535, left // y)))
    return Sizes(rows, y, z)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each release and path, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="append", metavar="RELEASE", help="may be repeated (default: all known)")
    parser.add_argument("--device", default="h200", help="a GPU of `harness devices` (default: h200)")
    chosen = parser.parse_args(arguments)
    try:
        device = find_device(chosen.device)
    except UsageError as error:
        parser.error(str(error))
    print(f"{device.name}, by torch {_version('torch')} and Triton {_version('triton')}", flush=True)
    cache = Settings.from_environment(os.environ).cache
    return max([_report(release, device.slug, cache) for release in chosen.torch or RELEASES])


def _report(release: str, device: str, cache: Path) -> int:
    """Print the lines of a release, and return the exit status."""
    try:
        written = generate(release, device, cache)
    except NoWrapper as error:
        print(f"torch {release}: {error}", flush=True)
        return 2
    status = 0
    for path in ("lazy", "ahead"):
        if written[path] is None:
            print(f"torch {release:7} {path:6} the release has no such path", flush=True)
        else:
            verdict, judged = judge(written[path], written["symbols"], written["builds"])
            print(f"torch {release:7} {path:6} {verdict}", flush=True)
            status = max(status, judged)
    return status


def judge(text: str, symbols: Mapping[str, str], builds: Mapping[str, Sequence[Mapping[str, int]]]) -> tuple[str, int]:
    """Return the verdict on a wrapper, and the exit status."""
    try:
        wrapper = Wrapper.read(text, symbols, builds)
        shortage = wrapper.smallest_shortage()
    except UnknownForm as error:
        return f"unknown form: {error}", 2
    if not wrapper.launches:
        return "needs no scratch memory", 0
    function = wrapper.launches[0].function
    allocated = function.scratch.replace(f"{function.kernel}_result.", "")
    if shortage is None:
        return f"enough in {GRIDS} drawn grids; allocates `{allocated}`", 0
    return (
        f"too little: {shortage.kernel} with grid {shortage.grid} needs {shortage.needed} bytes"
        f" and gets {shortage.allocated}; allocates `{allocated}`"
    ), 1


def generate(release: str, device: str, cache: Path) -> dict[str, Any]:
    """Return what `generate_wrappers.py` prints for a release.

    Raises:
        NoWrapper: the release cannot be had, or its code does not run here.
    """
    is_installed = _version("torch") == release
    folders = [] if is_installed else [str(sources(release, cache))]
    child = subprocess.run(
        [sys.executable, "-m", "ci.generate_wrappers", device, *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode:
        raise NoWrapper(f"its wrapper cannot be generated: {(child.stderr.strip().splitlines() or [''])[-1]}")
    return json.loads(child.stdout)


def _version(package: str) -> str:
    return importlib.metadata.version(package).partition("+")[0]


def sources(release: str, cache: Path) -> Path:
    """Return a folder with the Python sources of a release's Inductor; download them if they are not in the cache.

    Raises:
        NoWrapper: pip finds no wheel.
    """
    folder = cache / "torch-sources" / release
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{release}.lock"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{release}-") as work:
                with zipfile.ZipFile(_download(release, Path(work))) as wheel:
                    names = [
                        name
                        for name in wheel.namelist()
                        if name.startswith("torch/_inductor/") and name.endswith(".py")
                    ]
                    wheel.extractall(Path(work, "unpacked"), names)
                Path(work, "unpacked").replace(folder)
    return folder


def _download(release: str, work: Path) -> Path:
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--implementation=cp", f"--dest={work}"]
    python = f"--python-version={sys.version_info.major}.{sys.version_info.minor}"
    platforms = [f"--platform={platform}" for platform in PLATFORMS]
    pip = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, python, *platforms, f"torch=={release}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if pip.returncode:
        reasons = [line for line in pip.stderr.splitlines() if line.startswith("ERROR: ")] or [pip.stderr.strip()]
        raise NoWrapper(f"pip finds no wheel for macOS: {reasons[0].removeprefix('ERROR: ')}")
    return next(work.glob("*.whl"))


if __name__ == "__main__":
    sys.exit(main())
