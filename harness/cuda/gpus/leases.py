"""Leases of GPUs between the processes of one user: a file lock for each GPU, by UUID, in a folder that they share.

A lock belongs to an open file, which the kernel closes when its process ends, however that ends: nothing is left to
clean up.  Beside each lock lies a file that says who holds it; it counts only while the lock is held.
"""

import os
import stat
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from harness.cuda.gpus.inventory import RealGpu
from harness.errors import GpuUnavailable, HarnessError, UsageError

FOLDER = "HARNESS_LEASES"
"""The variable that names another folder: for processes whose temporary folders differ."""
ASKED_EVERY_S = 0.1


def leases_folder() -> Path:
    """`$HARNESS_LEASES` as it is, or one in the user's runtime folder, or in that for temporary files, for them alone.

    Raises:
        HarnessError: somebody else has made a folder of that name.
        UsageError: `$HARNESS_LEASES` is no folder to write to.
    """
    if own := os.environ.get(FOLDER):
        return _chosen(Path(own).expanduser())
    if (runtime := Path(os.environ.get("XDG_RUNTIME_DIR") or os.devnull)).is_dir():
        folder = runtime / "kernel-harness-gpus"
    else:
        folder = Path(tempfile.gettempdir()) / f"kernel-harness-gpus-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise HarnessError(f"{folder} belongs to somebody else: export {FOLDER}=… names another folder for GPU leases")
    folder.chmod(0o700)
    return folder


def _chosen(folder: Path) -> Path:
    """A folder of the user's choice, which may be shared: made where it is not there, and left as it is where it is."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{FOLDER}={folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{FOLDER}={folder}: no file can be made there")
    return folder


@contextmanager
def lease(gpus: Sequence[RealGpu], wanted: int, wait_s: float) -> Generator[tuple[RealGpu, ...]]:
    """The first `wanted` of these GPUs that nobody holds, for as long as the block runs or this process lives.

    Waits up to `wait_s` until as many are free at the same time; holds none meanwhile.

    Raises:
        UsageError: fewer than one, or more than there are, are wanted.
        GpuUnavailable: not enough became free in time; the text says who holds which.
    """
    if not 1 <= wanted <= len(gpus):
        raise UsageError(f"{wanted} GPUs are wanted, and this machine offers 1 to {len(gpus)}")
    folder = leases_folder()
    deadline = time.monotonic() + wait_s
    with ExitStack() as held:
        while not (leased := _attempt(folder, gpus, wanted, held)):
            if time.monotonic() >= deadline:
                who = ", ".join(f"{uuid} is held by {holder}" for uuid, holder in _holders(folder, gpus))
                raise GpuUnavailable(
                    f"{_count(wanted)} wanted and not free within {wait_s:g} s: {who or 'they have just been let go'}; "
                    "wait for them, ask for fewer, or end them"
                )
            time.sleep(min(ASKED_EVERY_S, max(0.0, deadline - time.monotonic())))
        yield leased


def holder(gpu: RealGpu) -> str:
    """Who holds the lease of a GPU, in words; empty where nobody does."""
    return dict(_holders(leases_folder(), [gpu])).get(gpu.uuid, "")


def _attempt(folder: Path, gpus: Sequence[RealGpu], wanted: int, held: ExitStack) -> tuple[RealGpu, ...]:
    """The GPUs that were taken, with their release on `held`; none where there were too few."""
    with ExitStack() as taken, _attempts(folder):
        leased: list[RealGpu] = []
        for gpu in gpus:
            if len(leased) < wanted and _take(folder, gpu, taken):
                leased.append(gpu)
        if len(leased) < wanted:
            return ()
        held.push(taken.pop_all())
        return tuple(leased)


def _take(folder: Path, gpu: RealGpu, taken: ExitStack) -> bool:
    lock = _lock(folder, gpu)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    note = _note(folder, gpu)
    draft = note.with_suffix(".draft")
    draft.write_text(str(os.getpid()), encoding="ascii")
    draft.replace(note)
    taken.callback(lock.release)
    taken.callback(note.unlink, missing_ok=True)
    return True


def _holders(folder: Path, gpus: Sequence[RealGpu]) -> tuple[tuple[str, str], ...]:
    """UUID and holder of each GPU that is held."""
    held: list[tuple[str, str]] = []
    with _attempts(folder):  # to look is to try
        for gpu in gpus:
            lock = _lock(folder, gpu)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                held.append((gpu.uuid, _named(_note(folder, gpu))))
            else:
                lock.release()
    return tuple(held)


def _named(note: Path) -> str:
    try:
        pid = int(note.read_text(encoding="ascii"))
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):  # it is just being written, or the holder is of another container
        return "another process"
    command = " ".join(b" ".join(words).decode(errors="replace").split())
    return f"process {pid} ({command[:60]})" if command else f"process {pid}"


def _attempts(folder: Path) -> FileLock:
    """Held while locks are tried: of two processes that want two GPUs, each could take one for ever."""
    return FileLock(folder / "attempts.lock")


def _lock(folder: Path, gpu: RealGpu) -> FileLock:
    # Threads of a process may hand a lease on; it is the process's.
    return FileLock(folder / f"{gpu.uuid}.lock", thread_local=False)


def _note(folder: Path, gpu: RealGpu) -> Path:
    return folder / f"{gpu.uuid}.holder"


def _count(number: int) -> str:
    return "1 GPU is" if number == 1 else f"{number} GPUs are"
