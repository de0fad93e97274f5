"""Compiles the kernels of a case: as many at once as cores are idle, and none that another process compiles.

A process that compiles holds a lock on the build, which Linux releases however the process ends.
"""

import fcntl
import os
import re
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from harness.execution import flight_recorder
from harness.workers.supervision import linux

_RUNNING = re.compile(rb"^procs_running (\d+)$", re.MULTILINE)
STATISTICS = Path("/proc/stat")


def has_idle_core() -> bool:
    """Return True if fewer threads run on this machine than this process may use cores."""
    with suppress(OSError):
        if found := _RUNNING.search(STATISTICS.read_bytes()):
            return int(found[1]) < len(os.sched_getaffinity(0))
    return False


class Build(Protocol):
    """A kernel that is to be compiled."""

    @property
    def kernel(self) -> str: ...

    @property
    def digest(self) -> str:
        """It tells the build from others."""
        ...

    @property
    def compile_it(self) -> Callable[[], Any]:
        """Compiles it into the cache, unless it is there, and returns the kernel, which its property `run` loads."""
        ...


class BuildLots:
    """Compiles lots of builds into Triton's cache, in this process and in children."""

    def __init__(self, locks: Path, may_fork: Callable[[], bool] = has_idle_core) -> None:
        """`locks` is a folder for locks, the same for all processes that share the cache."""
        self._locks = locks
        self._may_fork = may_fork

    def compile_all(self, builds: Iterable[Build]) -> None:
        """Compile them, and return when all are in the cache, or one does not compile in this process.

        Whoever needs a build that did not compile meets its error again.
        """
        self._locks.mkdir(parents=True, exist_ok=True)
        waiting, elsewhere, children = deque(builds), list[Build](), dict[int, Build]()
        try:
            with suppress(Exception):  # whoever calls the kernel next raises it again
                while waiting:
                    build = waiting.popleft()
                    with self._claim(build) as is_ours:
                        if not is_ours:
                            elsewhere.append(build)
                        elif waiting and self._may_fork():
                            children[_forked(build)] = build
                        else:
                            _compile(build)
                for build in elsewhere:
                    with flight_recorder.compiling(build.kernel), self._claim(build, waits=True):
                        _compile(build)
        finally:
            for child, build in children.items():
                with flight_recorder.compiling(build.kernel):
                    os.waitpid(child, 0)

    @contextmanager
    def _claim(self, build: Build, *, waits: bool = False) -> Generator[bool]:
        """Yield True with the build's lock, which a child forked meanwhile holds too; False if another process has it.

        A file system without locks gives all of them.
        """
        path = self._locks / build.digest
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(file)
            yield False
            return
        except OSError:
            pass
        try:
            yield True
        finally:
            os.close(file)


def _compile(build: Build) -> None:
    with flight_recorder.compiling(build.kernel):
        _ = build.compile_it().run  # loading makes the launcher, and checks the build


def _forked(build: Build) -> int:
    """Compile it in a child, and return the child's process id."""
    parent = os.getpid()
    if child := os.fork():
        return child
    try:
        linux.die_with(parent)
        with suppress(Exception):  # as in `compile_all`
            _compile(build)
    finally:
        os._exit(0)
