"""The compiler beside the search: what kernels take on their GPU, from the TTIR that workers leave behind.

One child process compiles at the lowest priority.  Kernels of a new shape (TTIR that differs in more than the values of
integer constants) go first: a constant that follows the number of rows makes nearly every case a new build, but hardly
ever other resources.  What is still waiting when the search ends is compiled until the time limit; the rest stays
unknown, and the resources oracle abstains there.  Answers of the compiler's own are kept in files, so that the next
search begins with them; a process that died, and trouble of the machine, are no answers, and are tried again then.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from types import TracebackType
from typing import Self

from harness import wire
from harness.errors import ReplayError
from harness.model.kernel_resources import CRASHES, Resources
from harness.model.run import Launch
from harness.virtual.driver.builds import BUILD_SUFFIX, RESOURCES_SUFFIX

SETTLE_S = 20.0
ATTEMPTS = 2
CACHE = "triton-resources"
"""Triton's cache of whole kernels, beside the builds: the workers' own holds "cubins" that are none."""
KEPT_FORMAT = 2
"""The first kept failures of the machine too."""
LONGEST_QUOTE = 60


class BackgroundCompiler:
    """Asks for builds and knows the answers that came so far; used from one thread, answered by another."""

    def __init__(self, builds: Path, *, settle_s: float = SETTLE_S) -> None:
        self._builds = builds
        self._cache = (builds.parent / CACHE).resolve()
        self._settle_s = settle_s
        self._known: dict[str, Resources] = {}
        self._shapes: set[str] = set()
        self._new: deque[_Waiting] = deque()
        self._similar: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._compiling = False
        self._error: Exception | None = None
        self._process: subprocess.Popen[str] | None = None
        for path in builds.glob(f"*{RESOURCES_SUFFIX}"):  # what cannot be read is gone before engines look for it
            if (kept := _kept(path)) is not None:
                self._known[path.stem] = kept
        self._asked = set(self._known)
        self._thread = threading.Thread(target=self._serve, name="background-compiler", daemon=True)
        self._thread.start()

    def of(self, launch: Launch) -> Resources | None:
        """The figures for this launch's build if they are known; otherwise asks for them.

        Raises:
            Exception: what broke the thread that answers.
        """
        with self._changed:
            if self._error is not None:
                raise self._error
            if launch.build not in self._asked:
                self._ask(launch.build)
            return self._known.get(launch.build)

    def settle(self) -> None:
        """Wait until every build of a new shape is known, and for the others as long as the time limit allows.

        Raises:
            Exception: what broke the thread that answers.
        """
        deadline = time.monotonic() + self._settle_s
        with self._changed:
            while self._is_busy() and time.monotonic() < deadline:
                self._changed.wait(deadline - time.monotonic())
            if self._error is not None:
                raise self._error

    def close(self) -> None:
        """End the compiler's process; what is waiting stays unknown."""
        with self._changed:
            self._closed = True
            process = self._process
            self._changed.notify_all()
        if process is not None:
            process.kill()
        self._thread.join()
        if self._process is not None:
            self._process.kill()
            _reap(self._process)
        for waiting in (*self._new, *self._similar):
            waiting.path.unlink(missing_ok=True)  # a later search leaves it again if it needs it

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _is_busy(self) -> bool:
        """Whether there is anything to wait for."""
        is_over = self._closed or self._error is not None
        return not is_over and bool(self._new or self._similar or self._compiling)

    def _ask(self, build: str) -> None:
        path = self._builds / f"{build}{BUILD_SUFFIX}"
        kept = _kept(path.with_suffix(RESOURCES_SUFFIX))
        if kept is not None:
            self._known[build] = kept
            self._asked.add(build)
            return
        try:
            text = path.read_text(encoding="utf-8")
            shape = json.loads(text)["shape"]
        except FileNotFoundError:
            return  # the engine leaves no builds behind, or another search that shares the folder tidied up
        except (ValueError, LookupError, TypeError):
            path.unlink(missing_ok=True)  # emptied by a power cut: the next process leaves it again
            return
        self._asked.add(build)
        (self._similar if shape in self._shapes else self._new).append(_Waiting(path, text))
        self._shapes.add(shape)
        self._changed.notify_all()

    def _serve(self) -> None:
        try:
            while waiting := self._next():
                resources = self._compile(waiting)
                waiting.path.unlink(missing_ok=True)
                with self._changed:
                    self._known[waiting.path.stem] = resources
                    self._compiling = False
                    self._changed.notify_all()
        except Exception as error:  # noqa: BLE001 - whoever asks or waits is told
            with self._changed:
                self._error = error
                self._compiling = False
                self._changed.notify_all()

    def _compile(self, waiting: "_Waiting") -> Resources:
        """What the compiler's process answers; if it crashes at each attempt, it does so over the kernel."""
        ends: list[_Died] = []
        while len(ends) < ATTEMPTS:
            try:
                process = self._process or self._start()
            except OSError as error:
                return Resources.not_known(f"the compiler's process cannot be started: {error}")
            answer = _exchange(process, waiting.text)
            if isinstance(answer, Resources):
                if not answer.unknown:
                    _keep(waiting.path.with_suffix(RESOURCES_SUFFIX), answer)
                return answer
            with self._changed:
                self._process = None
            ends.append(answer)
        others = [end.how for end in ends if end.crash is None]
        if others:
            return Resources.not_known(f"the compiler's process {others[-1]}")
        return Resources.failed(f"the compiler crashes over it: {ends[-1].crash}, {ATTEMPTS} times of {ATTEMPTS}")

    def _next(self) -> "_Waiting | None":
        with self._changed:
            while not self._closed and not self._new and not self._similar:
                self._changed.wait()
            if self._closed:
                return None
            self._compiling = True
            return self._new.popleft() if self._new else self._similar.popleft()

    def _start(self) -> subprocess.Popen[str]:
        with self._changed:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.virtual.driver.compiler_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                errors="replace",
                env=os.environ | {"TRITON_CACHE_DIR": str(self._cache)},
                start_new_session=True,
            )
            if self._closed:
                self._process.kill()
            return self._process


@dataclass(frozen=True, slots=True)
class _Waiting:
    path: Path
    text: str
    """The build file's content: one line of JSON."""


@dataclass(frozen=True, slots=True)
class _Died:
    """A compiler's process that is no more, and gave no answer."""

    how: str
    crash: str | None = None
    """The signal, where it is one that the process raised itself."""


def _exchange(process: subprocess.Popen[str], text: str) -> Resources | _Died:
    """The compiler's answer to a build.  A process that gives none is ended: nobody knows what else it would say."""
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
        process.kill()
        _reap(process)
        return _Died(f"answers {line.strip()[:LONGEST_QUOTE]!r}")


_SIGNALS = frozenset(Signals)
"""Those that have names."""


def _died(status: int) -> _Died:
    if status >= 0:
        return _Died(f"ended with status {status}")
    name = Signals(-status).name if -status in _SIGNALS else f"signal {-status}"
    return _Died(f"was ended by {name}", name if -status in CRASHES else None)


def _reap(process: subprocess.Popen[str]) -> int:
    """Let go of a process that has ended; its exit status."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # what it did not read any more
                pipe.close()
    return process.wait()


# --- what is known from one search to the next -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """The content of a file of resources."""

    format: int
    resources: Resources


def _kept(path: Path) -> Resources | None:
    """What the file holds; none if it is not there, or cannot be read, and then it is removed."""
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


def _keep(path: Path, resources: Resources) -> None:
    """Write the file, whole or not at all: on a full disk, the next search compiles the build again."""
    draft = path.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        with draft.open("w", encoding="utf-8") as file:
            file.write(wire.to_json(_Kept(format=KEPT_FORMAT, resources=resources)))
            file.flush()
            os.fsync(file.fileno())  # else a power cut leaves an empty file of that name
        draft.rename(path)
    with suppress(OSError):
        draft.unlink(missing_ok=True)
