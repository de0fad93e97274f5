"""Where a kernel spins that does not end: a core dump of the GPU, asked for from outside and read by cuda-gdb.

Where its environment says so, CUDA's driver waits for the request at a named pipe of the process; then it writes what
the warps are at, and aborts the process.  Everything here is bounded in time, and nothing raises: what could not be
found out is a sentence.
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
"""Where a warp is, is told without any memory: a dump of megabytes, in seconds, where it were gigabytes else."""

DEBUGGER = "cuda-gdb"
DEBUGGER_FOLDERS = ("/usr/local/cuda/bin", "/opt/cuda/bin")
DUMPING_S = 15.0
"""How long the driver may take to write the dump."""
READING_S = 20.0
"""How long cuda-gdb may take to read it."""

FRAME = re.compile(
    r"^#\d+\s+(?:0x[0-9a-f]+ in )?(?P<function>[^\s(<]+)(?P<grid><<<[^>]*>>>)?\s*\(.*?\)"
    r"(?: at (?P<file>.+):(?P<line>\d+))?\s*$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLocation:
    """What the GPU was executing."""

    kernel: str
    source: Source | None
    """The innermost line that has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoredumpFiles:
    """The files of one process."""

    pipe: Path
    core: Path

    def remove(self) -> None:
        """Leave nothing behind; a process that is killed leaves its pipe."""
        for path in (self.pipe, self.core):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def environment(folder: Path) -> tuple[tuple[str, str], ...]:
    """The variables that make CUDA listen for the request; to be set before CUDA starts in a process.

    The folder is made: CUDA would not do it, and a library may have changed the working directory by then.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return (
        (ENABLED, "1"),
        (PIPE, str(folder / "cdpipe.%p")),
        (FILE, str(folder / "core.%p")),
        (PROGRESS, "1"),
        (FLAGS, SKIPPED),
    )


def places(variables: Iterable[tuple[str, str]], pid: int) -> CoredumpFiles | None:
    """Where a process with these variables listens and writes; None where it does not."""
    known: Mapping[str, str] = dict(variables)
    if known.get(ENABLED) != "1" or PIPE not in known or FILE not in known:
        return None
    return CoredumpFiles(pipe=_of(known[PIPE], pid), core=_of(known[FILE], pid))


def debugger() -> str | None:
    """Where cuda-gdb is, if anywhere."""
    return shutil.which(DEBUGGER) or shutil.which(DEBUGGER, path=os.pathsep.join(DEBUGGER_FOLDERS))


def trigger(at: CoredumpFiles) -> str:
    """Ask for the dump; returns at once, empty where it was asked for, else why it was not."""
    try:
        fd = os.open(at.pipe, os.O_WRONLY | os.O_NONBLOCK)  # without a reader this fails, where it else would wait
    except OSError as error:
        return f"CUDA does not listen at {at.pipe}: {error.strerror}"
    try:
        os.write(fd, b"1")
    except OSError as error:
        return f"CUDA did not take the request at {at.pipe}: {error.strerror}"
    finally:
        os.close(fd)
    return ""


def read(at: CoredumpFiles, program: str, *, limit_s: float = READING_S) -> GpuLocation | str:
    """What cuda-gdb says of the dump, or why it says nothing."""
    if not at.core.is_file() or not at.core.stat().st_size:
        return "the driver wrote no core dump of the GPU"
    command = [program, "-batch", "-nx", "-ex", f"target cudacore {at.core}", "-ex", "bt"]
    try:
        asked = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{DEBUGGER} did not read the core dump: {error}"
    spot = parse(asked.stdout)
    if spot is None:
        said = (asked.stderr or asked.stdout).strip().splitlines()
        return f"{DEBUGGER} found no kernel in the core dump{f': {said[-1]}' if said else ''}"
    return spot


def parse(backtrace: str) -> GpuLocation | None:
    """The kernel of a backtrace, and its innermost line; None where no frame is a kernel's."""
    frames = [found for line in backtrace.splitlines() if (found := FRAME.match(line))]
    kernels = [frame["function"] for frame in frames if frame["grid"]]
    if not kernels:
        return None
    with_line = next((frame for frame in frames if frame["file"]), None)
    source = Source(file=with_line["file"], line=int(with_line["line"])) if with_line else None
    return GpuLocation(kernel=kernels[0], source=source)


def _of(pattern: str, pid: int) -> Path:
    return Path(pattern.replace("%p", str(pid)).replace("%h", os.uname().nodename))
