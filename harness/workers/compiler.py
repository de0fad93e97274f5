"""The compiler beside the search: what kernels take on their GPU, from the TTIR that workers leave behind.

One child process compiles at the lowest priority.  Kernels of a new shape (TTIR that differs in more than the values of
integer constants) go first: a constant that follows the number of rows makes nearly every case a new build, but hardly
ever other resources.  What is still waiting when the search ends is compiled until the time limit; the rest stays
unknown, and the resources oracle abstains there.  Answers are kept in files, so that the next search begins with them.
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
from types import TracebackType
from typing import Self

from harness import wire
from harness.model.resources import Resources
from harness.model.run import Launch
from harness.virtual.builds import BUILD_SUFFIX, RESOURCES_SUFFIX

SETTLE_S = 20.0
ATTEMPTS = 2


class BackgroundCompiler:
    """Asks for builds and knows the answers that came so far; used from one thread, answered by another."""

    def __init__(self, builds: Path, *, settle_s: float = SETTLE_S) -> None:
        self._builds = builds
        self._settle_s = settle_s
        self._known: dict[str, Resources] = {}
        self._asked: set[str] = set()
        self._shapes: set[str] = set()
        self._new: deque[_Waiting] = deque()
        self._similar: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._compiling = False
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._serve, name="background-compiler", daemon=True)
        self._thread.start()

    def of(self, launch: Launch) -> Resources | None:
        """The figures for this launch's build if they are known; otherwise asks for them."""
        with self._changed:
            if launch.build not in self._asked:
                self._ask(launch.build)
            return self._known.get(launch.build)

    def settle(self) -> None:
        """Wait until every build of a new shape is known, and for the others as long as the time limit allows."""
        deadline = time.monotonic() + self._settle_s
        with self._changed:
            while (self._new or self._similar or self._compiling) and time.monotonic() < deadline and not self._closed:
                self._changed.wait(deadline - time.monotonic())

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

    def _ask(self, build: str) -> None:
        path = self._builds / f"{build}{BUILD_SUFFIX}"
        answer = path.with_suffix(RESOURCES_SUFFIX)
        try:
            if answer.is_file():
                self._known[build] = wire.from_json(answer.read_text(encoding="utf-8"), Resources)
                self._asked.add(build)
                return
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return  # the engine leaves no builds behind, or another search that shares the folder tidied up
        self._asked.add(build)
        shape = json.loads(text)["shape"]
        (self._similar if shape in self._shapes else self._new).append(_Waiting(path, text))
        self._shapes.add(shape)
        self._changed.notify_all()

    def _serve(self) -> None:
        while waiting := self._next():
            resources = self._compile(waiting.text)
            with self._changed:
                self._compiling = False
                if not self._closed:
                    self._keep(waiting.path, resources)
                self._changed.notify_all()

    def _compile(self, text: str) -> Resources:
        """What the compiler's process answers; one that dies twice on the same kernel dies of it."""
        status = 0
        for _ in range(ATTEMPTS):
            process = self._process or self._start()
            if line := _exchange(process, text):
                return wire.from_json(line, Resources)
            with self._changed:
                self._process = None
            status = _reap(process)
        return Resources.failed(f"the compiler's process ended with status {status}")

    def _keep(self, path: Path, resources: Resources) -> None:
        """Know a build's resources, now and in later searches, and drop the build."""
        self._known[path.stem] = resources
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(wire.to_json(resources), encoding="utf-8")
        draft.rename(path.with_suffix(RESOURCES_SUFFIX))
        path.unlink(missing_ok=True)

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
                [sys.executable, "-m", "harness.virtual.resources"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
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


def _exchange(process: subprocess.Popen[str], text: str) -> str:
    """The compiler's answer to a build; empty if it died."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{text}\n")
        process.stdin.flush()
        return process.stdout.readline()
    except BrokenPipeError:
        return ""


def _reap(process: subprocess.Popen[str]) -> int:
    """Let go of a process that has ended; its exit status."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # what it did not read any more
                pipe.close()
    return process.wait()
