"""Compiles kernels to a stage in a process of its own: LLVM may abort, and the worker must not die of that.

`python -m harness.engines.triton.stage_process` reads builds from standard input and prints their texts, one line of
JSON each.  It imports Triton once, and reads Triton's own files once for the key of its cache.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO

from harness.catalogue import no_backend
from harness.errors import CannotExecute
from harness.model.device import Arch, Vendor, vendor_of

LIMIT_S = 120.0
"""The longest compilation of one build."""
NOT_INHERITED = frozenset({"HARNESS_WATCH"})
"""Variables that would make the process emulate a GPU, and compile to TTIR only."""


class _State:
    elsewhere: Callable[[str, str, Arch, Mapping[str, Any]], str] | None = None
    """Starts the process for one that may start none; None to start it here."""


state = _State()


def compiled_text(ttir: str, stage: str, arch: Arch, options: Mapping[str, Any]) -> str:
    """Return the text of a stage, `ttgir` or `ptx`, of a kernel given as TTIR.

    Raises:
        RuntimeError: the kernel does not compile, the compiler crashes, or it takes too long.
        CannotExecute: it is for an Intel GPU.
    """
    if vendor_of(arch) is Vendor.INTEL:
        raise CannotExecute(no_backend(version("triton")))
    if state.elsewhere is not None:
        return state.elsewhere(ttir, stage, arch, options)
    return _compilers.text(json.dumps({"ttir": ttir, "stage": stage, "arch": arch, "options": dict(options)}))


def compiler_environment() -> dict[str, str]:
    """Return the environment of a process that compiles: it finds the harness, and emulates nothing."""
    own = str(Path(__file__).parents[3])
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    return {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, (own, inherited.get("PYTHONPATH"))))}


class _Died(Exception):
    """A process that compiles has ended."""


class _Compiler:
    """One process that compiles, until it dies or its input ends."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._errors = TemporaryFile("w+b")  # noqa: SIM115 - `close` closes it
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.engines.triton.stage_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            text=True,
            encoding="utf-8",
        )

    @property
    def has_ended(self) -> bool:
        """True if something ended the process between two builds."""
        return self._process.poll() is not None

    def answer(self, build: str) -> Mapping[str, str]:
        """Return the text of a build, or the error.

        Raises:
            _Died: the process ended, with how.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._errors.seek(0)  # the process writes where this one's file stands
        self._errors.truncate()
        ending = threading.Timer(LIMIT_S, self._process.kill)
        ending.daemon = True
        ending.start()
        try:
            self._process.stdin.write(f"{build}\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        finally:
            is_late = not ending.is_alive()
            ending.cancel()
        if is_late:
            raise _Died(f"the compiler takes more than {LIMIT_S:g} s")
        if not line.endswith("\n"):
            raise _Died(self._last_words())
        return json.loads(line)

    def _last_words(self) -> str:
        """Return what the process printed last, or how it ended."""
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"the compiler ended with status {status}"

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._errors):
            if file is not None:
                with suppress(OSError):  # it had not read everything
                    file.close()


class _Compilers:
    """The compiler of this process: started at the first build, and anew after a death or in another environment."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)  # the compiler belongs to the parent
        atexit.register(self._close)

    def text(self, build: str) -> str:
        with self._lock:
            environment = compiler_environment()
            if environment != self._environment or (self._compiler is not None and self._compiler.has_ended):
                self._close()
            if self._compiler is None:
                self._compiler, self._environment = _Compiler(environment), environment
            try:
                answer = self._compiler.answer(build)
            except _Died as died:
                self._close()
                answer = {"error": str(died)}
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["text"]

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._compiler: _Compiler | None = None
        self._environment: Mapping[str, str] = {}

    def _close(self) -> None:
        compiler, self._compiler = self._compiler, None
        if compiler is not None:
            compiler.close()


_compilers = _Compilers()


def reserve_output() -> TextIO:
    """Return standard output for the answers, and send everything else that is printed to standard error.

    Triton prints the kernel before it raises a PTXASError (3.6 to 3.9).
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def main() -> None:
    """Compile the builds on standard input until it ends."""
    from harness.engines.triton.later_stages import compile_to_stage  # noqa: PLC0415 - the caller needs no compiler

    answers = reserve_output()
    for line in sys.stdin:
        build = json.loads(line)
        try:
            answer = {"text": compile_to_stage(build["ttir"], build["stage"], build["arch"], build["options"])}
        except Exception as error:  # noqa: BLE001 - whatever the compiler raises is the answer
            answer = {"error": "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
