"""The background compiler: the resources that kernels take on their GPU, from the TTIR that workers leave behind.

One child process compiles at the lowest priority.  Kernels of a new shape go first: their TTIR differs in more than the
values of integer constants.  A constant that follows the number of rows makes nearly every case a new build, but hardly
ever changes the resources.  Builds that still wait at the end of the search are compiled until the time limit.  Others
stay unknown, and the resources oracle abstains there.

Answers of the compiler itself are kept in files for the next search.  The death of a process, or trouble of the
machine, is no answer: the next search tries again.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from types import TracebackType
from typing import Self

from harness import wire
from harness.engines.triton.builds import BUILD_SUFFIX, RESOURCES_SUFFIX
from harness.errors import ReplayError
from harness.model.kernel_resources import CRASHES, Resources
from harness.model.run import Launch
from harness.workers.folder import PoolFolder
from harness.workers.supervision import linux

SETTLE_S = 20.0
ATTEMPTS = 2
CACHE = "triton-resources"
"""The folder of Triton's cache of whole kernels, next to the builds.  The workers' cache holds TTIR as "cubins"."""
KEPT_FORMAT = 2
"""Format 1 kept failures of the machine, too."""
LONGEST_QUOTE = 60


class BackgroundCompiler:
    """Requests builds and has the answers so far.  One thread uses it; another one talks to the compiler."""

    def __init__(self, builds: Path, *, settle_s: float = SETTLE_S) -> None:
        self._builds = builds
        self._cache = (builds.parent / CACHE).resolve()
        self._settle_s = settle_s
        self._resources: dict[str, Resources] = {}
        self._shapes: set[str] = set()
        self._new: deque[_Build] = deque()
        self._similar: deque[_Build] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._compiling = False
        self._error: Exception | None = None
        self._process: subprocess.Popen[str] | None = None
        self._folder: PoolFolder | None = None
        """Holds the compiler's temporary files, which it cannot remove when it is killed."""
        for path in builds.glob(f"*{RESOURCES_SUFFIX}"):  # unreadable files are removed before engines look for them
            if (kept := _read(path)) is not None:
                self._resources[path.stem] = kept
        self._requested = set(self._resources)
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
        """Kill the compiler's process; builds that wait stay unknown."""
        with self._changed:
            self._closed = True
            process = self._process
            self._changed.notify_all()
        if process is not None:
            _kill(process)
        self._thread.join()
        if self._process is not None:
            _kill(self._process)
            _reap(self._process)
        if self._folder is not None:
            self._folder.remove()
        for build in (*self._new, *self._similar):
            build.path.unlink(missing_ok=True)  # a later search writes it again if needed

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
        kept = _read(path.with_suffix(RESOURCES_SUFFIX))
        if kept is not None:
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
                build.path.unlink(missing_ok=True)
                with self._changed:
                    self._resources[build.path.stem] = resources
                    self._compiling = False
                    self._changed.notify_all()
        except Exception as error:  # noqa: BLE001 - `of` and `settle` raise it
            with self._changed:
                self._error = error
                self._compiling = False
                self._changed.notify_all()

    def _compile(self, build: "_Build") -> Resources:
        """The answer of the compiler's process.  If it crashes at each attempt, the kernel is at fault."""
        ends: list[_Died] = []
        while len(ends) < ATTEMPTS:
            try:
                process = self._process or self._start()
            except OSError as error:
                return Resources.not_known(f"the compiler's process cannot be started: {error}")
            answer = _exchange(process, build.text)
            if isinstance(answer, Resources):
                if not answer.unknown:
                    _write(build.path.with_suffix(RESOURCES_SUFFIX), answer)
                return answer
            with self._changed:
                self._process = None
            ends.append(answer)
        others = [end.how for end in ends if end.crash is None]
        if others:
            return Resources.not_known(f"the compiler's process {others[-1]}")
        return Resources.failed(f"the compiler crashes over it: {ends[-1].crash}, {ATTEMPTS} times of {ATTEMPTS}")

    def _next(self) -> "_Build | None":
        with self._changed:
            while not self._closed and not self._new and not self._similar:
                self._changed.wait()
            if self._closed:
                return None
            self._compiling = True
            return self._new.popleft() if self._new else self._similar.popleft()

    def _start(self) -> subprocess.Popen[str]:
        with self._changed:
            self._folder = self._folder or PoolFolder(str(self._builds.parent))
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.engines.triton.compiler_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                errors="replace",
                env=os.environ | {"TRITON_CACHE_DIR": str(self._cache), "TMPDIR": str(self._folder.temporary)},
                start_new_session=True,
            )
            if self._closed:  # `close` may have looked for a process just before
                _kill(self._process)
            return self._process


@dataclass(frozen=True, slots=True)
class _Build:
    path: Path
    text: str
    """The build file's content: one line of JSON."""


@dataclass(frozen=True, slots=True)
class _Died:
    """The end of a compiler's process that gave no answer."""

    how: str
    crash: str | None = None
    """The signal, if the process raised it itself."""


def _exchange(process: subprocess.Popen[str], text: str) -> Resources | _Died:
    """The compiler's answer to a build.  A process that gives none is killed: its later answers could be wrong too."""
    assert process.stdin is not None
    assert process.stdout is not None
    line = ""
    with suppress(BrokenPipeError):
        process.stdin.write(f"{text}\n")
        process.stdin.flush()
        line = process.stdout.readline()
    if not line:
        return _died(_reap(process))
    try:
        return wire.from_json(line, Resources)
    except ReplayError:
        _kill(process)
        _reap(process)
        return _Died(f"answers {line.strip()[:LONGEST_QUOTE]!r}")


_SIGNALS = frozenset(Signals)
"""The signals that have names; real-time signals have none."""


def _died(status: int) -> _Died:
    if status >= 0:
        return _Died(f"ended with status {status}")
    name = Signals(-status).name if -status in _SIGNALS else f"signal {-status}"
    return _Died(f"was ended by {name}", name if -status in CRASHES else None)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill the process and the assembler that it may wait for, which can run for minutes."""
    if process.poll() is None:
        linux.kill_group(process.pid)


def _reap(process: subprocess.Popen[str]) -> int:
    """Close the pipes of a process that has ended.  Returns its exit status."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # it had not read everything
                pipe.close()
    return process.wait()


# --- resources kept from one search to the next ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """The content of a resources file."""

    format: int
    resources: Resources


def _read(path: Path) -> Resources | None:
    """The content of the file; None if there is none.  A file that cannot be read is removed."""
    try:
        kept = wire.from_json(path.read_bytes(), _Kept)
    except FileNotFoundError:
        return None
    except ReplayError:
        kept = None
    if kept is not None and kept.format == KEPT_FORMAT:
        return kept.resources
    path.unlink(missing_ok=True)
    return None


def _write(path: Path, resources: Resources) -> None:
    """Write the file whole or not at all.  On a full disk, the next search compiles the build again."""
    draft = path.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        with draft.open("w", encoding="utf-8") as file:
            file.write(wire.to_json(_Kept(format=KEPT_FORMAT, resources=resources)))
            file.flush()
            os.fsync(file.fileno())  # or a power cut could leave an empty file of that name
        draft.rename(path)
    with suppress(OSError):
        draft.unlink(missing_ok=True)
