"""Runs one query about a GPU in a fresh child process, within a time limit.

The parent never starts CUDA: it could no longer fork, and a lost GPU takes its process with it.  So the child asks the
driver and exits after one answer.  A child that even SIGKILL does not end is left behind.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

KILLED_WITHIN_S = 5.0
"""Time limit after SIGKILL, which does not end a process that waits in the driver for a lost GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The child exited by itself, or a signal killed it."""

    status: int
    """Its exit status, or the negative number of the signal."""
    out: str
    err: str

    @property
    def last_words(self) -> str:
        """Return the last line of its standard error, or its exit status if there is none."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.status}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTimedOut:
    """The child did not end in time, and was killed."""

    time_limit_s: float
    is_gone: bool
    """False if it still waits in the operating system's kernel after SIGKILL."""

    def __str__(self) -> str:
        return f"no answer within {self.time_limit_s:g} s" + ("" if self.is_gone else ", and it cannot be killed")


def ask(module: str, *arguments: str, time_limit_s: float, environment: Mapping[str, str]) -> Answered | QueryTimedOut:
    """Run `python -m module` with this interpreter and its paths; `environment` overrides inherited variables."""
    child = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        out, err = child.communicate(timeout=time_limit_s)
    except subprocess.TimeoutExpired:
        return QueryTimedOut(time_limit_s=time_limit_s, is_gone=_kill(child))
    except BaseException:
        _kill(child)
        raise
    return Answered(status=child.returncode, out=out, err=err)


def _kill(child: subprocess.Popen[str]) -> bool:
    """Kill the child; return True if it ended."""
    child.kill()
    try:
        child.communicate(timeout=KILLED_WITHIN_S)
    except subprocess.TimeoutExpired:
        return False
    return True
