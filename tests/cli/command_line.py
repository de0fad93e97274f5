"""A project folder in which tests run `harness`: in this process, or in one of its own."""

import io
import os
import resource
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.cli import main

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ("--engine", "tests.cli.fake_engine:FakeEngine")
ON = ("--device", "rtx-pro-6000", "--seed", "1", *ENGINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A command that has ended."""

    status: int
    out: str
    err: str


class Project:
    """A folder, and the `harness` to run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def start(self, *arguments: str, module: str = "harness.cli") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def harness(self, *arguments: str) -> Finished:
        """Run a command in this process, where it shares zygotes with other tests."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(self.folder)
            patch.setenv("PYTHONPATH", str(ROOT))
            patch.setenv("COLUMNS", "80")
            try:
                status = main(arguments)
            except SystemExit as ended:
                status = ended.code
        assert isinstance(status, int)
        return Finished(status=int(status), out=out.getvalue(), err=err.getvalue())

    def process(self, *arguments: str, limit_s: float = 120) -> Finished:
        """Run a command in a process of its own, for signals, pipes, imports and the output of children."""
        return self._finished(self.start(*arguments), limit_s)

    def run(self, module: str, *arguments: str, limit_s: float = 120) -> Finished:
        return self._finished(self.start(*arguments, module=module), limit_s)

    def pytest(self, *arguments: str, limit_s: float = 120) -> Finished:
        return self._finished(self.start(*arguments, module="pytest"), limit_s)

    @staticmethod
    def _finished(process: subprocess.Popen[str], limit_s: float) -> Finished:
        out, err = process.communicate(timeout=limit_s)
        return Finished(status=process.returncode, out=out, err=err)


def cpu_seconds_of_children() -> float:
    """Return the CPU time of this process's children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
