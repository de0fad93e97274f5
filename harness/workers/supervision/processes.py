"""Threads and children of a process that does not answer, by `/proc`."""

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.workers.supervision.linux import stat_fields

COMPILERS = ("ptxas", "nvcc", "cicc", "nvlink", "fatbinary", "gcc", "cc1", "clang", "c++", "g++", "cc", "ld", "as")
"""Programs that Triton and libraries start to build kernels and launchers; a name may go on after a dash."""
RUNNING = "R"
WAITS = ("futex", "pipe", "poll", "epoll", "nanosleep", "wait", "unix", "read", "lock")
"""Parts of the names of functions in Linux, which differ from one release to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """One thread at one moment."""

    id: int
    state: str
    """As in `/proc`: `R` runs, `S` sleeps, `D` sleeps and cannot be woken."""
    held_by: str
    """The simplest name of what it sleeps in, such as `futex`; empty if it runs or Linux does not say."""
    ticks: int
    """CPU time that it has used: see `tick_s`."""


def threads(pid: int) -> tuple[Thread, ...]:
    """All threads of a process, its main thread first; none if the process is gone."""
    running: list[Thread] = []
    try:
        folders = sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda folder: int(folder.name))
    except OSError:
        return ()
    for folder in folders:
        try:
            fields = stat_fields(folder)
        except OSError:  # it has just ended
            continue
        held_by = "" if fields[0] == RUNNING else _simplified(_first_line(folder / "wchan"))
        ticks = int(fields[11]) + int(fields[12])
        running.append(Thread(id=int(folder.name), state=fields[0], held_by=held_by, ticks=ticks))
    return tuple(running)


def compilers(pid: int) -> tuple[str, ...]:
    """The names of compilers that the process started and that still run."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return ()
    names: list[str] = []
    for child in children:
        try:
            if child.status() != psutil.STATUS_ZOMBIE and _is_compiler(child.name()):
                names.append(child.name())
        except psutil.Error:
            continue
    return tuple(names)


def tick_s() -> float:
    """The length of one tick of `Thread.ticks`."""
    return 1 / os.sysconf("SC_CLK_TCK")


def _is_compiler(name: str) -> bool:
    return name.partition("-")[0] in COMPILERS


def _simplified(name: str) -> str:
    """`futex` for `futex_wait_queue` and `futex_do_wait` alike; empty if Linux hides the name."""
    if name in {"", "0"}:
        return ""
    return next((wait for wait in WAITS if wait in name), name)


def _first_line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").partition("\n")[0]
    except OSError:
        return ""
