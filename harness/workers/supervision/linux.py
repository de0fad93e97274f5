"""Services of Linux: death signals, the OOM killer, process groups, `/proc` and malloc."""

import ctypes
import os
import select
import signal
from contextlib import suppress
from functools import cache
from pathlib import Path

STACK_SIGNAL = signal.SIGRTMIN
"""Makes a child print its Python stacks, even while it hangs in native code.  LLVM, in Triton, handles SIGUSR1."""
PR_SET_PDEATHSIG = 1
KILL_ME_FIRST = "1000"
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
KEPT_BYTES = 64 << 20
MAPPED_FROM_BYTES = 32 << 20
"""The largest threshold that glibc accepts."""


def die_with(parent: int) -> None:
    """Have Linux kill this process when the thread that started it ends, even by SIGKILL."""
    _set_death_signal(signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before the request, so no signal will come
        os._exit(1)


def outlive_parent() -> None:
    """Undo `die_with`."""
    _set_death_signal(0)


def offer_to_oom_killer() -> None:
    """Have the OOM killer choose this process rather than its parent."""
    Path("/proc/self/oom_score_adj").write_text(KILL_ME_FIRST)


def keep_freed_memory() -> None:
    """Have malloc keep some freed memory.

    Each operation of a large case allocates and frees blocks of some megabytes.  To get their pages from Linux each
    time takes as long as to compute them.  A libc without `mallopt` works as before.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MAPPED_FROM_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def data_bytes() -> int:
    """Private writable memory that this process has mapped, touched or not.  RLIMIT_DATA limits the same."""
    return int(os.pread(_statm(os.getpid()), 256, 0).split()[5]) * PAGE_BYTES


@cache
def _statm(pid: int) -> int:
    """An open file: it is read after every case, and to open it takes longer than to read it."""
    return os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)


def children() -> list[int]:
    """Processes that this one's main thread forked and has not waited for."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def ends(child: int, limit_s: float) -> bool:
    """True if a child of this process ends within the time; its exit status is left to be read."""
    try:
        pidfd = os.pidfd_open(child)
    except ProcessLookupError:  # it was reaped before
        return True
    try:
        return bool(select.select([pidfd], [], [], limit_s)[0])
    finally:
        os.close(pidfd)


def has_ended(pid: int) -> bool:
    """True if a process is gone, or only its exit status is left."""
    return _state(pid) in {"", "X", "Z"}


def is_stopped(pid: int) -> bool:
    """True if a signal or a debugger has stopped a process."""
    return _state(pid) in {"T", "t"}


def _state(pid: int) -> str:
    """Return the letter of a process's state; empty if it is gone."""
    try:
        return stat_fields(Path(f"/proc/{pid}"))[0]
    except (OSError, IndexError):
        return ""


def stat_fields(folder: Path) -> list[str]:
    """The fields of a process's or a thread's `stat` from its state on.

    The field before is the name in parentheses, which may hold spaces and parentheses itself.
    """
    return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()


def starved_s(pid: int) -> float:
    """The longest time that a thread of a process was ready to run and had no core; 0 if the process is gone."""
    waited_ns = [0]
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # the thread ended meanwhile
            waited_ns.append(int(task.read_text().split()[1]))
    return max(waited_ns) / 1e9


def kill_group(leader: int) -> None:
    """Kill a process and everything that it started, except what left its process group."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        try:
            os.kill(leader, signal.SIGKILL)  # just forked, and not the leader of a group yet
        except ProcessLookupError:
            return


def kill_rest_of_group(leader: int) -> None:
    """Kill what a process started and left in its group; the process has ended, and another may have its id."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _set_death_signal(number: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
