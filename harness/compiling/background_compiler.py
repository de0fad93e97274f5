"""The background compiler: the resources that kernels take on their GPU, from the TTIR that workers leave behind.

One child process compiles at the lowest priority.  Kernels of a new shape go first: their TTIR differs in more than the
values of integer constants.  A constant that follows the number of rows makes nearly every case a new build, but hardly
ever changes the resources.  Builds that still wait at the end of the search are compiled until the time limit.  Others
stay unknown, and the resources oracle abstains there.

Answers of the compiler itself are kept in files for the next search.  The death of a process, or trouble of the
machine, is no answer: the next search tries again.

Searches that run at the same time share the folder.  A worker leaves a build once, whoever waits for it, so builds that
still wait are removed only by the last search.
"""

import fcntl
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.compiling.build_cache import ResourcesFolder
from harness.compiling.compiler_child import CompilerChild, Unanswered, program
from harness.engines.triton.builds import BUILD_SUFFIX
from harness.model.kernel_resources import Resources
from harness.model.run import Launch

SETTLE_S = 20.0
CACHE = "triton-resources"
"""The folder of Triton's cache of whole kernels, next to the builds.  The workers' cache holds TTIR as "cubins"."""


class BackgroundCompiler:
    """Requests builds and has the answers so far.  One thread uses it; another one talks to the compiler."""

    def __init__(self, builds: Path, *, settle_s: float = SETTLE_S) -> None:
        self._builds = builds
        self._use = _FolderUse(builds)
        self._kept = ResourcesFolder(builds)
        self._kept.remove_empty()
        self._resources: dict[str, Resources] = {}
        self._child = CompilerChild(
            program(), builds.parent, {"TRITON_CACHE_DIR": str((builds.parent / CACHE).resolve())}
        )
        self._settle_s = settle_s
        self._shapes: set[str] = set()
        self._new: deque[_Build] = deque()
        self._similar: deque[_Build] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._compiling = False
        self._error: Exception | None = None
        self._requested: set[str] = set()
        self._thread = threading.Thread(target=self._serve, name="background-compiler", daemon=True)
        self._thread.start()

    def of(self, launch: Launch) -> Resources | None:
        """The resources of this launch's build if they are known; otherwise requests them.

        Raises:
            Exception: the error that ended the compiler's thread.
        """
        with self._changed:
            if self._error is not None:
                raise self._error
            if launch.build not in self._requested:
                self._request(launch.build)
            return self._resources.get(launch.build)

    def settle(self, limit_s: float | None = None) -> None:
        """Wait until every requested build is known, or the compiler's own limit or `limit_s` is over.

        Raises:
            Exception: the error that ended the compiler's thread.
        """
        self._wait_while(self._is_busy, limit_s)

    def wait_for(self, launches: Iterable[Launch], limit_s: float | None = None) -> None:
        """Compile the builds of these launches next, and wait for them, with limits and errors as in `settle`."""
        wanted = {launch.build for launch in launches if self.of(launch) is None}
        with self._changed:
            first = [build for build in (*self._new, *self._similar) if build.path.stem in wanted]
            self._new = deque([*first, *(build for build in self._new if build.path.stem not in wanted)])
            self._similar = deque(build for build in self._similar if build.path.stem not in wanted)
        self._wait_while(lambda: self._is_busy() and bool(wanted - self._resources.keys()), limit_s)

    def _wait_while(self, condition: Callable[[], bool], limit_s: float | None) -> None:
        deadline = time.monotonic() + (self._settle_s if limit_s is None else min(limit_s, self._settle_s))
        with self._changed:
            while condition() and time.monotonic() < deadline:
                self._changed.wait(deadline - time.monotonic())
            if self._error is not None:
                raise self._error

    def close(self) -> None:
        """Kill the compiler's process; builds that wait stay unknown.  The last search removes them."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._child.kill()
        self._thread.join()
        self._child.close()
        if self._use.end():
            for path in self._builds.glob(f"*{BUILD_SUFFIX}"):
                path.unlink(missing_ok=True)  # a later search writes it again if needed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _is_busy(self) -> bool:
        is_over = self._closed or self._error is not None
        return not is_over and bool(self._new or self._similar or self._compiling)

    def _request(self, build: str) -> None:
        path = self._builds / f"{build}{BUILD_SUFFIX}"
        if (kept := self._kept.find(build)) is not None:
            self._resources[build] = kept
            self._requested.add(build)
            return
        try:
            text = path.read_text(encoding="utf-8")
            shape = json.loads(text)["shape"]
        except FileNotFoundError:
            return  # the engine writes no builds, or another search that shares the folder removed it
        except (ValueError, LookupError, TypeError):
            path.unlink(missing_ok=True)  # emptied by a power cut: the next process writes it again
            return
        self._requested.add(build)
        (self._similar if shape in self._shapes else self._new).append(_Build(path, text))
        self._shapes.add(shape)
        self._changed.notify_all()

    def _serve(self) -> None:
        try:
            while build := self._next():
                resources = self._compile(build)
                with self._changed:
                    if not self._closed:  # another search may wait for what was not compiled to its end
                        build.path.unlink(missing_ok=True)
                    self._resources[build.path.stem] = resources
                    self._compiling = False
                    self._changed.notify_all()
        except Exception as error:  # noqa: BLE001 - `of` and `settle` raise it
            with self._changed:
                self._error = error
                self._compiling = False
                self._changed.notify_all()

    def _compile(self, build: "_Build") -> Resources:
        try:
            answer = self._child.ask(build.text, Resources)
        except OSError as error:
            return Resources.not_known(f"the compiler's process cannot be started: {error}")
        if isinstance(answer, Unanswered):
            return Resources.failed(answer.reason) if answer.is_refusal else Resources.not_known(answer.reason)
        if not answer.unknown:
            self._kept.keep(build.path.stem, answer)
        return answer

    def _next(self) -> "_Build | None":
        with self._changed:
            while not self._closed and not self._new and not self._similar:
                self._changed.wait()
            if self._closed:
                return None
            self._compiling = True
            return self._new.popleft() if self._new else self._similar.popleft()


@dataclass(frozen=True, slots=True)
class _Build:
    path: Path
    text: str
    """The build file's content: one line of JSON."""


class _FolderUse:
    """The use of a folder by this search: a shared lock.  Linux releases it when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._fd, fcntl.LOCK_SH)

    def end(self) -> bool:
        """End the use, and return True if no other search uses the folder.  Only the first call may return True."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(fd)
        return True
