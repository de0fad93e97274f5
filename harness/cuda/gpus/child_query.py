"""Asks a fresh child process something about a GPU, within a time limit, and gives up where even SIGKILL does not help.

The parent never starts CUDA: a process that did may not fork, and a GPU that is lost takes its process with it.  What
needs the driver is asked of a child that exits after one answer.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

KILLED_WITHIN_S = 5.0
"""A process that waits in the driver for a lost GPU cannot be killed; it is left behind then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The child ended by itself."""

    status: int
    """Its exit status; the negative number of the signal that killed it."""
    out: str
    err: str

    @property
    def last_words(self) -> str:
        """The last line on its error stream, or what its exit status says."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.status}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTimedOut:
    """The child did not end in time, and was killed."""

    time_limit_s: float
    is_gone: bool
    """It ended on SIGKILL; otherwise it still waits in the kernel."""

    def __str__(self) -> str:
        return f"no answer within {self.time_limit_s:g} s" + ("" if self.is_gone else ", and it cannot be killed")


def ask(module: str, *arguments: str, time_limit_s: float, environment: Mapping[str, str]) -> Answered | QueryTimedOut:
    """Run `python -m module` as this Python would, with `environment` over this process's own."""
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
    """Whether the child is gone."""
    child.kill()
    try:
        child.communicate(timeout=KILLED_WITHIN_S)
    except subprocess.TimeoutExpired:
        return False
    return True
