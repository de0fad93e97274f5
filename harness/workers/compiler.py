"""The compiler beside the search: what kernels take on their GPU, from the TTIR that workers leave behind.

One child process compiles at the lowest priority.  Kernels of a new shape (TTIR that differs in more than the values of
integer constants) go first: a constant that follows the number of rows makes nearly every case a new build, but hardly
ever other resources.  What is still waiting when the search ends is compiled until the time limit; the rest stays
unknown, and the resources oracle abstains there.
"""

import json
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

from harness import wire
from harness.model.run import Launch, Resources

SETTLE_S = 20.0


class BackgroundCompiler:
    """Asks for builds and knows the answers that came so far; used from one thread, answered by another."""

    def __init__(self, builds: Path, *, settle_s: float = SETTLE_S) -> None:
        self._builds = builds
        self._settle_s = settle_s
        self._known: dict[str, Resources] = {}
        self._asked: set[str] = set()
        self._shapes: set[str] = set()
        self._new: deque[Path] = deque()
        self._similar: deque[Path] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._compiling = False
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._serve, name="background-compiler", daemon=True)
        self._thread.start()

    def of(self, launch: Launch) -> Resources | None:
        """The figures for this launch's build if they are known; otherwise asks for them."""
        with self._changed:
            known = self._known.get(launch.build)
            if known is None and launch.build not in self._asked:
                self._ask(launch.build)
            return known

    def settle(self) -> None:
        """Wait until every build of a new shape is known, and for the others as long as the time limit allows."""
        deadline = time.monotonic() + self._settle_s
        with self._changed:
            while (self._new or self._similar or self._compiling) and time.monotonic() < deadline and not self._closed:
                self._changed.wait(deadline - time.monotonic())

    @property
    def known(self) -> int:
        """How many builds have been compiled."""
        return len(self._known)

    @property
    def asked(self) -> int:
        """How many builds were asked for."""
        return len(self._asked)

    def close(self) -> None:
        """End the compiler's process; what is waiting stays unknown."""
        with self._changed:
            self._closed = True
            process = self._process
            self._changed.notify_all()
        if process is not None:
            process.kill()
        self._thread.join()
        if process is not None:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, build: str) -> None:
        path = self._builds / f"{build}.json"
        if not path.is_file():
            return  # the engine leaves no builds behind
        self._asked.add(build)
        shape = json.loads(path.read_text())["shape"]
        (self._similar if shape in self._shapes else self._new).append(path)
        self._shapes.add(shape)
        self._changed.notify_all()

    def _serve(self) -> None:
        while path := self._next():
            process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(f"{path}\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = ""
            with self._changed:
                self._compiling = False
                if line:
                    answer = json.loads(line)
                    self._known[answer["build"]] = wire.from_json(json.dumps(answer["resources"]), Resources)
                elif not self._closed:  # the compiler itself died on this kernel: the next one gets a new process
                    self._process = None
                    process.wait()
                    process.stdin.close()
                    process.stdout.close()
                    self._known[path.stem] = _crashed(process.returncode)
                self._changed.notify_all()

    def _next(self) -> Path | None:
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


def _crashed(status: int) -> Resources:
    return Resources(
        registers_per_thread=0,
        spill_bytes=0,
        shared_bytes=0,
        tensor_memory_columns=0,
        scratch_bytes_per_program=0,
        threads=0,
        failure=f"the compiler's process ended with status {status}",
    )
