"""Finds the line at which a kernel spins, from a core dump of the GPU that cuda-gdb reads.

If its environment says so, CUDA's driver listens at a named pipe of the process.  On a request it dumps the state of
all warps and aborts the process.  Every step here has a time limit, and failures are returned as sentences.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.model.run import Source

ENABLED = "CUDA_ENABLE_USER_TRIGGERED_COREDUMP"
PIPE = "CUDA_COREDUMP_PIPE"
FILE = "CUDA_COREDUMP_FILE"
PROGRESS = "CUDA_COREDUMP_SHOW_PROGRESS"
FLAGS = "CUDA_COREDUMP_GENERATION_FLAGS"
SKIPPED = "skip_global_memory,skip_shared_memory,skip_local_memory,skip_constbank_memory"
"""Leave memory out, since the position of a warp needs none: megabytes in seconds instead of gigabytes."""

DEBUGGER = "cuda-gdb"
DEBUGGER_FOLDERS = ("/usr/local/cuda/bin", "/opt/cuda/bin")
DUMP_LIMIT_S = 15.0
"""Time limit for the driver to write the dump."""
READ_LIMIT_S = 20.0
"""Time limit for cuda-gdb to read it."""

FRAME = re.compile(
    r"^#\d+\s+(?:0x[0-9a-f]+ in )?(?P<function>[^\s(<]+)(?P<grid><<<[^>]*>>>)?\s*\(.*?\)"
    r"(?: at (?P<file>.+):(?P<line>\d+))?\s*$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLocation:
    """The position at which the GPU executes."""

    kernel: str
    source: Source | None
    """The line of the innermost frame that has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoredumpFiles:
    """The request pipe and the core dump of one process."""

    pipe: Path
    core: Path

    def remove(self) -> None:
        """Delete both; a killed process leaves its pipe."""
        for path in (self.pipe, self.core):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def environment(folder: Path) -> tuple[tuple[str, str], ...]:
    """Return the variables that make CUDA listen for the request; set them before CUDA starts in a process."""
    # CUDA does not create the folder, and a relative path would depend on a library's changes of directory.
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return (
        (ENABLED, "1"),
        (PIPE, str(folder / "cdpipe.%p")),
        (FILE, str(folder / "core.%p")),
        (PROGRESS, "1"),
        (FLAGS, SKIPPED),
    )


def files_of(variables: Iterable[tuple[str, str]], pid: int) -> CoredumpFiles | None:
    """Return the files of a process with these variables; None if CUDA does not listen there."""
    known: Mapping[str, str] = dict(variables)
    if known.get(ENABLED) != "1" or PIPE not in known or FILE not in known:
        return None
    return CoredumpFiles(pipe=_expand(known[PIPE], pid), core=_expand(known[FILE], pid))


def debugger() -> str | None:
    """Return the path of cuda-gdb, if it is installed."""
    return shutil.which(DEBUGGER) or shutil.which(DEBUGGER, path=os.pathsep.join(DEBUGGER_FOLDERS))


def request_dump(files: CoredumpFiles) -> str:
    """Request the dump without waiting; return why that failed, or an empty string."""
    try:
        fd = os.open(files.pipe, os.O_WRONLY | os.O_NONBLOCK)  # O_NONBLOCK: fail without a reader instead of waiting
    except OSError as error:
        return f"CUDA does not listen at {files.pipe}: {error.strerror}"
    try:
        os.write(fd, b"1")
    except OSError as error:
        return f"CUDA did not take the request at {files.pipe}: {error.strerror}"
    finally:
        os.close(fd)
    return ""


def read_dump(files: CoredumpFiles, program: str, *, limit_s: float = READ_LIMIT_S) -> GpuLocation | str:
    """Return the position that cuda-gdb finds in the dump, or why it finds none."""
    if not files.core.is_file() or not files.core.stat().st_size:
        return "the driver wrote no core dump of the GPU"
    command = [program, "-batch", "-nx", "-ex", f"target cudacore {files.core}", "-ex", "bt"]
    try:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{DEBUGGER} did not read the core dump: {error}"
    location = parse(answer.stdout)
    if location is None:
        output = (answer.stderr or answer.stdout).strip().splitlines()
        return f"{DEBUGGER} found no kernel in the core dump{f': {output[-1]}' if output else ''}"
    return location


def parse(backtrace: str) -> GpuLocation | None:
    """Return the kernel of a backtrace and its innermost line; None if no frame is a kernel's."""
    frames = [frame for line in backtrace.splitlines() if (frame := FRAME.match(line))]
    kernels = [frame["function"] for frame in frames if frame["grid"]]
    if not kernels:
        return None
    with_line = next((frame for frame in frames if frame["file"]), None)
    source = Source(file=with_line["file"], line=int(with_line["line"])) if with_line else None
    return GpuLocation(kernel=kernels[0], source=source)


def _expand(pattern: str, pid: int) -> Path:
    return Path(pattern.replace("%p", str(pid)).replace("%h", os.uname().nodename))
