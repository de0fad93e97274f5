"""Compares the figures of a matrix with those of a GPU: registers, local memory, shared memory and scratch memory.

On any machine, pack the builds of one architecture, then compare them on a machine with such a GPU:

    python ci/compare_builds.py pack matrix.json sm90.builds.gz --arch 90
    python ci/compare_builds.py compare sm90.builds.gz --processes 16

`compare` needs Triton and NVIDIA's driver, and nothing else.  Each build is compiled by `triton.compile` and loaded by
the CUDA driver, which reports registers and local memory of the loaded function.  The last lines are a table of
differences.  Exit status: 0 all figures are equal, 1 some differ, 2 there is nothing to compare.
"""

import argparse
import ctypes
import gzip
import hashlib
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

NUM_REGS, LOCAL_SIZE_BYTES, SHARED_SIZE_BYTES = 4, 3, 1
"""Of `CUfunction_attribute`."""
FIGURES = (
    "registers_per_thread",
    "local_bytes_per_thread",
    "shared_bytes",
    "scratch_bytes_per_program",
    "scratch_align",
    "profile_scratch_bytes_per_program",
    "tensor_memory_columns",
    "num_warps",
)
MOST_LINES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedBuild:
    """One build of the matrix, with everything that compiles it again."""

    title: str
    """Kernel and config of one row that has the build."""
    arch: int
    options: dict[str, Any]
    ttir: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What `triton.compile` made here."""

    name: str = ""
    cubin: bytes = b""
    figures: dict[str, int]
    failure: str = ""


# --- packing ---------------------------------------------------------------------------------------------------------


def pack(matrix: Path, out: Path, arch: int, cache: Path) -> int:
    """Write the builds of one architecture to a file of JSON lines, and return their number."""
    document = json.loads(matrix.read_text(encoding="utf-8"))
    titles: dict[str, str] = {}
    for row in document["rows"]:
        for build in row["kernel"]["builds"]:
            titles.setdefault(build["key"], f"{row['kernel']['kernel']} ({build['config']})")
    count = 0
    with gzip.open(out, "wt", encoding="utf-8") as file:
        for build in sorted(document["builds"], key=lambda one: one["request"]["ttir"]):  # equal texts compress best
            request = build["request"]
            if request["target"]["vendor"] == "cuda" and request["target"]["arch"] == str(arch):
                digest = request["ttir"]
                text = gzip.decompress((cache / "ttir" / digest[:2] / f"{digest}.gz").read_bytes()).decode()
                packed = {
                    "title": titles[request["key"]],
                    "arch": arch,
                    "options": request["options"],
                    "ttir": text,
                    "facts": build["facts"],
                }
                file.write(f"{json.dumps(packed)}\n")
                count += 1
    return count


def unpacked(file: Path) -> Iterator[PackedBuild]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        yield from (PackedBuild(**json.loads(line)) for line in lines)


# --- compiling and loading -------------------------------------------------------------------------------------------


def compiled(build: PackedBuild) -> Compiled:
    """Compile one build as Triton does, in a process that keeps nothing."""
    import triton  # noqa: PLC0415 - only children compile
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415 - as above

    options = {name: value for name, value in build.options.items() if value is not None}
    with tempfile.TemporaryDirectory(prefix="compare-builds-") as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        file = Path(folder, "kernel.ttir")
        file.write_text(build.ttir, encoding="utf-8")
        try:
            made: Any = triton.compile(str(file), target=GPUTarget("cuda", build.arch, 32), options=options)
        except Exception as error:  # noqa: BLE001 - the matrix may say that it cannot be compiled
            return Compiled(figures={}, failure=f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
        metadata = made.metadata
        figures = {
            "shared_bytes": int(metadata.shared),
            "scratch_bytes_per_program": int(metadata.global_scratch_size or 0),
            "scratch_align": int(metadata.global_scratch_align or 1),
            "profile_scratch_bytes_per_program": int(metadata.profile_scratch_size or 0),
            "tensor_memory_columns": int(metadata.tmem_size or 0),
            "num_warps": int(metadata.num_warps),
        }
        return Compiled(name=metadata.name, cubin=made.asm["cubin"], figures=figures)


class CudaLoader:
    """Loads cubins with NVIDIA's driver, in one context of the first GPU."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, self._context = ctypes.c_int(), ctypes.c_void_p()
        self._check("cuInit", 0)
        self._check("cuDeviceGet", ctypes.byref(device), 0)
        name, major, minor = ctypes.create_string_buffer(100), ctypes.c_int(), ctypes.c_int()
        self._check("cuDeviceGetName", name, len(name), device)
        self._check("cuDeviceGetAttribute", ctypes.byref(major), 75, device)
        self._check("cuDeviceGetAttribute", ctypes.byref(minor), 76, device)
        self._check("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self._check("cuCtxSetCurrent", self._context)
        self.name, self.arch = name.value.decode(), 10 * major.value + minor.value

    def figures(self, cubin: bytes, name: str) -> dict[str, int]:
        """Return registers, local memory and static shared memory of a loaded function.

        Raises:
            OSError: the driver refuses the code.
        """
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._check("cuModuleLoadData", ctypes.byref(module), cubin)
        try:
            self._check("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            return {
                "registers_per_thread": self._attribute(NUM_REGS, function),
                "local_bytes_per_thread": self._attribute(LOCAL_SIZE_BYTES, function),
                "static_shared_bytes": self._attribute(SHARED_SIZE_BYTES, function),
            }
        finally:
            self._check("cuModuleUnload", module)

    def _attribute(self, number: int, function: ctypes.c_void_p) -> int:
        value = ctypes.c_int()
        self._check("cuFuncGetAttribute", ctypes.byref(value), number, function)
        return value.value

    def _check(self, call: str, *arguments: Any) -> None:
        if status := getattr(self._cuda, call)(*arguments):
            raise OSError(f"{call} returns {status}")


# --- comparing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A figure of one build that differs."""

    build: PackedBuild
    figure: str
    matrix: object
    here: object


def differences(build: PackedBuild, made: Compiled, load: Callable[[bytes, str], dict[str, int]]) -> list[Difference]:
    """Return the figures that differ; those of a build that compiles on one side only are one difference."""
    expected = build.facts["failure"]
    if made.failure or expected:
        is_same = bool(made.failure) == bool(expected)
        return [] if is_same else [Difference(build=build, figure="failure", matrix=expected, here=made.failure)]
    try:
        loaded = load(made.cubin, made.name)
    except OSError as error:
        return [Difference(build=build, figure="loading", matrix="", here=str(error))]
    here = made.figures | loaded
    found = [
        Difference(build=build, figure=figure, matrix=build.facts[figure], here=here[figure])
        for figure in FIGURES
        if build.facts[figure] != here[figure]
    ]
    if loaded["static_shared_bytes"]:
        found.append(Difference(build=build, figure="static shared", matrix=0, here=loaded["static_shared_bytes"]))
    return found


def compare(file: Path, processes: int, limit: int | None) -> int:
    """Compare the packed builds with the GPU of this machine, print the table, and return the exit status."""
    builds = list(unpacked(file))[:limit]
    loader = CudaLoader()
    if not builds or builds[0].arch != loader.arch:
        print(f"{file} has {len(builds)} builds, and none for {loader.name} (sm_{loader.arch})")
        return 2
    found: list[Difference] = []
    equal_code = refused = 0
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as executor:
        for number, (build, made) in enumerate(zip(builds, executor.map(compiled, builds), strict=True), 1):
            found += differences(build, made, loader.figures)
            refused += bool(made.failure)
            equal_code += bool(made.cubin) and hashlib.sha256(made.cubin).hexdigest()[:16] == build.facts["cubin"]
            if number % 50 == 0:
                print(f"{number} of {len(builds)} builds", file=sys.stderr, flush=True)
    for line in table(builds, found):
        print(line)
    print(
        f"{loader.name} (sm_{loader.arch}): {len(builds)} builds, {refused} of them refused by the compiler; "
        f"{equal_code} have equal machine code; {len(found)} figures differ"
    )
    return 1 if found else 0


def table(builds: Sequence[PackedBuild], found: Iterable[Difference]) -> Iterator[str]:
    """Yield the number of differences by figure, then each of them."""
    listed = list(found)
    counts = Counter(each.figure for each in listed)
    yield f"{'figure':<34} {'builds':>6} {'equal':>6} {'differ':>6}"
    for figure in (*FIGURES, *(name for name in counts if name not in FIGURES)):
        yield f"{figure:<34} {len(builds):>6} {len(builds) - counts[figure]:>6} {counts[figure]:>6}"
    for each in listed[:MOST_LINES]:
        yield f"{each.build.title}: {each.figure} is {each.here!r}, in the matrix {each.matrix!r}"
    if len(listed) > MOST_LINES:
        yield f"… and {len(listed) - MOST_LINES} more"


def main(arguments: Sequence[str] | None = None) -> int:
    """Pack or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("matrix", type=Path)
    packing.add_argument("out", type=Path)
    packing.add_argument("--arch", type=int, required=True, help="compute capability as 90 or 120")
    packing.add_argument("--cache", type=Path, help="the cache's folder (default: that of harness matrix)")
    comparing = commands.add_parser("compare")
    comparing.add_argument("builds", type=Path)
    comparing.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    comparing.add_argument("--limit", type=int, help="compare only the first builds")
    given = parser.parse_args(arguments)
    if given.command == "compare":
        return compare(given.builds, given.processes, given.limit)
    count = pack(given.matrix, given.out, given.arch, given.cache or _usual_cache())
    print(f"{count} builds for sm_{given.arch} in {given.out}")
    return 0 if count else 2


def _usual_cache() -> Path:
    from harness.compiling.build_cache import FOLDER  # noqa: PLC0415 - comparing needs no harness
    from harness.settings import Settings  # noqa: PLC0415 - as above

    return Settings.from_environment(os.environ).cache / FOLDER


if __name__ == "__main__":
    sys.exit(main())
