"""The compilers: some processes that compile builds side by side, and may die doing it.

A compiler that aborts, hangs or exceeds its memory costs its process and the facts of its build; the others go on.
Facts are kept in the cache as soon as they are known.  A failure of this machine is not kept.
"""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from select import select
from signal import Signals
from typing import IO, Self

from harness import wire
from harness.errors import ReplayError
from harness.matrix.build_cache import BuildCache
from harness.model.kernel_build import BuildFacts, BuildRequest
from harness.model.kernel_resources import CRASHES
from harness.workers.folder import PoolFolder
from harness.workers.supervision import linux

PROGRAM = (sys.executable, "-m", "harness.matrix.build_process")
TIME_LIMIT_S = 600.0
"""Of one build, in wall-clock time."""
ATTEMPTS = 2
LAST_BYTES = 4000


class Compilers:
    """A context manager that owns the processes; it kills them all when it is left."""

    def __init__(
        self,
        cache: BuildCache,
        processes: int,
        *,
        time_limit_s: float = TIME_LIMIT_S,
        program: tuple[str, ...] = PROGRAM,
    ) -> None:
        self._cache = cache
        self._time_limit_s = time_limit_s
        self._program = program
        self._folder = PoolFolder(str(cache.folder))
        """Holds the compilers' temporary files, which they cannot remove when they are killed."""
        command, temporary = (*program, str(cache.folder)), self._folder.temporary
        self._processes = [_Compiler(command, time_limit_s, temporary) for _ in range(processes)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for compiler in self._processes:
            compiler.close()
        self._folder.remove()

    def compile(self, requests: Iterable[BuildRequest]) -> Iterator[tuple[BuildRequest, BuildFacts]]:
        """Compile the builds and yield each with its facts, as they are ready.

        Raises:
            OSError: a process cannot be started, or the cache cannot be written.
        """
        waiting, done = SimpleQueue[BuildRequest](), SimpleQueue[_Done | Exception]()
        count = 0
        for request in requests:
            waiting.put(request)
            count += 1
        for compiler in self._processes:
            threading.Thread(target=self._serve, args=(compiler, waiting, done), daemon=True).start()
        for _ in range(count):
            result = done.get()
            if isinstance(result, Exception):
                raise result
            yield result.request, result.facts

    def _serve(
        self, compiler: "_Compiler", waiting: SimpleQueue[BuildRequest], done: "SimpleQueue[_Done | Exception]"
    ) -> None:
        with suppress(Empty):
            while request := waiting.get_nowait():
                try:
                    facts = _compiled(compiler, request)
                    if not facts.unknown:
                        self._cache.keep_facts(request.key, facts)
                except Exception as error:  # noqa: BLE001 - the thread that waits for results raises it
                    done.put(error)
                    return
                done.put(_Done(request, facts))


@dataclass(frozen=True, slots=True)
class _Done:
    request: BuildRequest
    facts: BuildFacts


def _compiled(compiler: "_Compiler", request: BuildRequest) -> BuildFacts:
    """Return the compiler's facts; those of a failure if its process dies at each attempt, or hangs."""
    ends: list[_Died] = []
    while len(ends) < ATTEMPTS:
        answer = compiler.ask(request)
        if isinstance(answer, BuildFacts):
            return answer
        ends.append(answer)
        if answer.hung:
            return BuildFacts(failure=answer.how)
    if all(end.is_crash for end in ends):
        return BuildFacts(failure=f"{ends[-1].how}, {ATTEMPTS} times of {ATTEMPTS}")
    return BuildFacts(unknown=ends[-1].how)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Died:
    """The end of a process that gave no answer."""

    how: str
    is_crash: bool = False
    """The process raised the signal itself."""
    hung: bool = False


class _Compiler:
    """One process, started anew after each death.  Only one thread asks it."""

    def __init__(self, command: tuple[str, ...], time_limit_s: float, temporary: Path) -> None:
        self._command = command
        self._time_limit_s = time_limit_s
        self._temporary = temporary
        self._process: subprocess.Popen[str] | None = None
        self._printed: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def ask(self, request: BuildRequest) -> BuildFacts | _Died:
        """Return the facts of one build, or how the process ended."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        line = ""
        with suppress(BrokenPipeError):
            process.stdin.write(f"{wire.to_json(request)}\n")
            process.stdin.flush()
            if not select([process.stdout], [], [], self._time_limit_s)[0]:
                self._end()
                return _Died(how=f"the compiler did not end within {self._time_limit_s:g} s", hung=True)
            line = process.stdout.readline()
        with suppress(ReplayError):
            return wire.from_json(line, BuildFacts)
        return self._death(process)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._end()

    def _start(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._closed:
                raise OSError("the compilers are closed")
            self._printed = tempfile.TemporaryFile("w+b")  # noqa: SIM115 - `_end` closes it
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
                text=True,
                encoding="utf-8",
                env={**os.environ, "TMPDIR": str(self._temporary)},
                start_new_session=True,
            )
            return self._process

    def _death(self, process: subprocess.Popen[str]) -> _Died:
        if process.poll() is None:
            linux.kill_group(process.pid)
        status = process.wait()
        text = _last_line(self._printed)
        self._end()
        if status >= 0:
            return _Died(how=f"the compiler's process ended with status {status}{text}")
        name = Signals(-status).name if -status in frozenset(Signals) else f"signal {-status}"
        return _Died(how=f"the compiler's process died of {name}{text}", is_crash=-status in CRASHES)

    def _end(self) -> None:
        """Kill the process, and the assembler that it may wait for."""
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is None:
                linux.kill_group(process.pid)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
        if self._printed is not None:
            self._printed.close()
            self._printed = None


def _last_line(printed: IO[bytes] | None) -> str:
    """Return the last line that the process printed, as the end of a sentence."""
    if printed is None:
        return ""
    size = printed.seek(0, 2)
    printed.seek(max(0, size - LAST_BYTES))
    lines = [line.strip() for line in printed.read().decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower()] or lines
    return f" ({telling[-1][:200]})" if telling else ""
