"""Leases of GPUs between processes: a file lock per GPU, named by UUID, in a shared folder.

The operating system releases a lock when its process ends in any way, so nothing needs cleaning up.  A note next to
each lock names its holder; it counts only while the lock is held.
"""

import os
import stat
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from harness.engines.cuda.gpus.inventory import RealGpu
from harness.errors import GpuUnavailable, HarnessError, UsageError
from harness.settings import LEASES_VARIABLE, Settings

RETRY_EVERY_S = 0.1


def leases_folder(settings: Settings) -> Path:
    """Return the folder of the leases; make it if it does not exist.

    A folder that `$HARNESS_LEASES` names stays as it is.  Otherwise the folder belongs to the user alone; it lies in
    the runtime folder or, if there is none, in the folder for temporary files.

    Raises:
        HarnessError: the folder belongs to another user.
        UsageError: `$HARNESS_LEASES` is no folder to write to.
    """
    if settings.leases:
        return _prepare_chosen_folder(settings.leases)
    if settings.runtime:
        folder = settings.runtime / "kernel-harness-gpus"
    else:
        folder = Path(tempfile.gettempdir()) / f"kernel-harness-gpus-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise HarnessError(
            f"{folder} belongs to another user: export {LEASES_VARIABLE}=… names another folder for GPU leases"
        )
    folder.chmod(0o700)
    return folder


def _prepare_chosen_folder(folder: Path) -> Path:
    """Create the folder that the user chose, or leave it as it is: it may be shared with other users."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{LEASES_VARIABLE}={folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{LEASES_VARIABLE}={folder}: no file can be made there")
    return folder


@contextmanager
def lease(gpus: Sequence[RealGpu], wanted: int, wait_s: float, folder: Path) -> Generator[tuple[RealGpu, ...]]:
    """Lease the first `wanted` free GPUs of these until the block or this process ends.

    Waits up to `wait_s` until that many are free at the same time, and holds none meanwhile.

    Raises:
        UsageError: `wanted` is less than one or more than there are.
        GpuUnavailable: not enough GPUs became free in time; the text names the holders.
    """
    if not 1 <= wanted <= len(gpus):
        raise UsageError(f"{wanted} GPUs are wanted, and this machine offers 1 to {len(gpus)}")
    deadline = time.monotonic() + wait_s
    with ExitStack() as leases:
        while not (leased := _try_to_lease(folder, gpus, wanted, leases)):
            if time.monotonic() >= deadline:
                who = ", ".join(f"{uuid} is held by {holder}" for uuid, holder in _holders(folder, gpus))
                raise GpuUnavailable(
                    f"{_count(wanted)} wanted and not free within {wait_s:g} s: {who or 'they are free by now'}; "
                    "wait for them, ask for fewer, or end them"
                )
            time.sleep(min(RETRY_EVERY_S, max(0.0, deadline - time.monotonic())))
        yield leased


def holder(gpu: RealGpu, folder: Path) -> str:
    """Describe the holder of a GPU's lease; empty if the GPU is free."""
    return dict(_holders(folder, [gpu])).get(gpu.uuid, "")


def _try_to_lease(folder: Path, gpus: Sequence[RealGpu], wanted: int, leases: ExitStack) -> tuple[RealGpu, ...]:
    """Lease the GPUs and register their release with `leases`; lease none if too few are free."""
    with ExitStack() as taken, _exclusively(folder):
        leased: list[RealGpu] = []
        for gpu in gpus:
            if len(leased) < wanted and _take(folder, gpu, taken):
                leased.append(gpu)
        if len(leased) < wanted:
            return ()
        leases.push(taken.pop_all())
        return tuple(leased)


def _take(folder: Path, gpu: RealGpu, taken: ExitStack) -> bool:
    lock = _lock(folder, gpu)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    note = _note(folder, gpu)
    # Replace the note atomically, so that readers never see a part of it.
    draft = note.with_suffix(".draft")
    draft.write_text(str(os.getpid()), encoding="ascii")
    draft.replace(note)
    taken.callback(lock.release)
    taken.callback(note.unlink, missing_ok=True)
    return True


def _holders(folder: Path, gpus: Sequence[RealGpu]) -> tuple[tuple[str, str], ...]:
    """Return UUID and holder of each leased GPU."""
    held: list[tuple[str, str]] = []
    with _exclusively(folder):  # the test is an attempt to lock
        for gpu in gpus:
            lock = _lock(folder, gpu)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                held.append((gpu.uuid, _describe_holder(_note(folder, gpu))))
            else:
                lock.release()
    return tuple(held)


def _describe_holder(note: Path) -> str:
    try:
        pid = int(note.read_text(encoding="ascii"))
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):  # not written yet, or the holder runs in another container
        return "another process"
    command = " ".join(b" ".join(words).decode(errors="replace").split())
    return f"process {pid} ({command[:60]})" if command else f"process {pid}"


def _exclusively(folder: Path) -> FileLock:
    """Return the lock to hold during attempts: otherwise two processes that want two GPUs could hold one each."""
    return FileLock(folder / "attempts.lock")


def _lock(folder: Path, gpu: RealGpu) -> FileLock:
    # Not thread-local: another thread of the process may release the lease.
    return FileLock(folder / f"{gpu.uuid}.lock", thread_local=False)


def _note(folder: Path, gpu: RealGpu) -> Path:
    return folder / f"{gpu.uuid}.holder"


def _count(number: int) -> str:
    return "1 GPU is" if number == 1 else f"{number} GPUs are"
