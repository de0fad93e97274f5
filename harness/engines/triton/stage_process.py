"""Compiles one kernel to a stage in a process of its own: LLVM may abort, and the worker must not die of that.

`python -m harness.engines.triton.stage_process` reads one build from standard input, as JSON, and prints the text.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

LIMIT_S = 120.0
NOT_INHERITED = frozenset({"HARNESS_WATCH"})
"""Variables that would make the process emulate a GPU, and compile to TTIR only."""


class _State:
    elsewhere: Callable[[str, str, int, Mapping[str, Any]], str] | None = None
    """Starts the process for one that may start none; None to start it here."""


state = _State()


def compiled_text(ttir: str, stage: str, arch: int, options: Mapping[str, Any]) -> str:
    """Return the text of a stage, `ttgir` or `ptx`, of a kernel given as TTIR.

    Raises:
        RuntimeError: the kernel does not compile, the compiler crashes, or it takes too long.
    """
    if state.elsewhere is not None:
        return state.elsewhere(ttir, stage, arch, options)
    own = str(Path(__file__).parents[3])
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    path = os.pathsep.join(filter(None, (own, inherited.get("PYTHONPATH"))))
    build = json.dumps({"ttir": ttir, "stage": stage, "arch": arch, "options": dict(options)})
    try:
        done = subprocess.run(
            [sys.executable, "-m", "harness.engines.triton.stage_process"],
            input=build,
            env={**inherited, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the compiler takes more than {LIMIT_S:g} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"the compiler ended with status {done.returncode}")
    return done.stdout


def reserve_output() -> TextIO:
    """Return standard output for the answers, and send everything else that is printed to standard error.

    Triton prints the kernel before it raises a PTXASError (3.6 to 3.9).
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def main() -> None:
    """Compile the build on standard input."""
    from harness.engines.triton.later_stages import compile_to_stage  # noqa: PLC0415 - the caller needs no compiler

    answers = reserve_output()
    build = json.loads(sys.stdin.read())
    answers.write(compile_to_stage(build["ttir"], build["stage"], build["arch"], build["options"]))
    answers.close()


if __name__ == "__main__":
    main()
