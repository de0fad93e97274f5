"""A child process that compiles.  It answers each build, one line of JSON, by another one, and may die doing it.

A compiler that aborts, hangs or exceeds its memory costs its process and the answer to its build.  A build at which
the child crashes each time is at fault itself.  Whatever ends it from outside is trouble of this machine.
"""

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from select import select
from signal import Signals
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, TypeVar

from harness import wire
from harness.errors import ReplayError
from harness.model.kernel_resources import CRASHES
from harness.workers.folder import PoolFolder
from harness.workers.supervision import linux

T = TypeVar("T")
PROGRAM = "harness.compiling.compiler_process"
ATTEMPTS = 2
LAST_BYTES = 4000
PIECE_BYTES = 65536
REAP_LIMIT_S = 10.0
LONGEST_QUOTE = 60
LLVM_ERROR = " (error: "
"""How an error of LLVM begins here: it prints one and ends the process, such as for assembly of another vendor."""
_SIGNALS = frozenset(Signals)
"""The signals that have names; real-time signals have none."""


def program() -> tuple[str, ...]:
    """Return the command of a child."""
    return (sys.executable, "-m", PROGRAM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """Why there is no answer to a build."""

    reason: str
    is_refusal: bool = False
    """The build crashes or hangs the compiler; otherwise it may be fine."""


class CompilerChild:
    """One child, started at its first build and anew after each death.  One thread at a time asks it."""

    def __init__(
        self,
        command: tuple[str, ...],
        scratch: Path,
        environment: Mapping[str, str] | None = None,
        *,
        time_limit_s: float | None = None,
    ) -> None:
        """`scratch` gets the child's temporary files, which it cannot remove when it is killed."""
        self._command = command
        self._scratch = scratch
        self._environment = environment or {}
        self._time_limit_s = time_limit_s
        self._process: subprocess.Popen[str] | None = None
        self._folder: PoolFolder | None = None
        self._errors: IO[bytes] | None = None
        """What the child prints."""
        self._lock = threading.Lock()
        self._closed = False

    def ask(self, build: str, expected: type[T]) -> T | Unanswered:
        """Return the answer to a build, or why there is none after all attempts.

        Raises:
            OSError: the child cannot be started.
        """
        troubles: list[Unanswered] = []
        unanswered = Unanswered(reason="")
        for _ in range(ATTEMPTS):
            process = self._process or self._start()
            line = self._exchange(process, build)
            if line is None:
                self._end()
                return Unanswered(reason=f"the compiler did not end within {self._time_limit_s:g} s", is_refusal=True)
            with suppress(ReplayError):
                if line:
                    return wire.from_json(line, expected)
            unanswered = self._death(process, line)
            if not unanswered.is_refusal:
                troubles.append(unanswered)
        if troubles:
            return troubles[-1]
        return Unanswered(reason=f"{unanswered.reason}, {ATTEMPTS} times of {ATTEMPTS}", is_refusal=True)

    def kill(self) -> None:
        """Kill the child, for another thread that asks it.  It is not started again."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            _kill(process)

    def close(self) -> None:
        """Kill the child and remove its files, when no thread asks it any more."""
        self.kill()
        self._end()
        if self._folder is not None:
            self._folder.remove()

    def _start(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._closed:
                raise OSError("it is closed")
            self._folder = self._folder or PoolFolder(str(self._scratch))
            self._errors = TemporaryFile("w+b", dir=self._folder.temporary)  # noqa: SIM115 - `_end` closes it
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                encoding="utf-8",
                errors="replace",
                env={**os.environ, **self._environment, "TMPDIR": str(self._folder.temporary)},
                start_new_session=True,
            )
            return self._process

    def _exchange(self, process: subprocess.Popen[str], build: str) -> str | None:
        """Return the line that answers a build: empty if the child died, None if it does not end."""
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(f"{build}\n")
            process.stdin.flush()
            return self._line(process.stdout)
        return ""

    def _line(self, answers: IO[str]) -> str | None:
        """Return the next line, or what there is of it if the child died; None if it is not whole within the limit."""
        deadline = None if self._time_limit_s is None else monotonic() + self._time_limit_s
        line = b""
        while not line.endswith(b"\n"):
            left_s = None if deadline is None else max(0.0, deadline - monotonic())
            if not select([answers], [], [], left_s)[0]:
                return None
            # Not by `readline`, which waits for ever for the rest of a line: a child may stop in the middle of one.
            piece = os.read(answers.fileno(), PIECE_BYTES)
            if not piece:
                break
            line += piece
        return line.decode("utf-8", "replace")

    def _death(self, process: subprocess.Popen[str], line: str) -> Unanswered:
        """Reap a child that gave no answer.  One that gave a wrong one is killed: its later ones could be wrong too."""
        if line:
            self._end()
            return Unanswered(reason=f"the compiler's process answers {line.strip()[:LONGEST_QUOTE]!r}")
        try:
            status = process.wait(timeout=REAP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._end()
            return Unanswered(reason="the compiler's process closed its output, and did not end", is_refusal=True)
        printed = _last_line(self._errors)
        self._end()
        if status >= 0:
            reason = f"the compiler's process ended with status {status}{printed}"
            return Unanswered(reason=reason, is_refusal=status == 1 and printed.startswith(LLVM_ERROR))
        name = Signals(-status).name if -status in _SIGNALS else f"signal {-status}"
        reason = f"the compiler's process died of {name}{printed}"
        return Unanswered(reason=reason, is_refusal=-status in CRASHES)

    def _end(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            _kill(process)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # it had not read everything
                        pipe.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill the child and the assembler that it may wait for, which can run for minutes."""
    if process.poll() is None:
        linux.kill_group(process.pid)


def _last_line(printed: IO[bytes] | None) -> str:
    """Return the last line that the child printed, as the end of a sentence."""
    if printed is None:
        return ""
    size = printed.seek(0, os.SEEK_END)
    printed.seek(max(0, size - LAST_BYTES))
    lines = [line.strip() for line in printed.read().decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower()] or lines
    return f" ({telling[-1][:200]})" if telling else ""


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all processes that it has waited for."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
