"""A process tree with another Triton than the installed one: parent, workers and compilers must agree on it.

Its PYTHONPATH begins with a folder that holds only that Triton.  Everything else, such as torch and the harness, is
what is installed here.  A program there reads a request from standard input and answers with the last line that it
prints, as JSON.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from harness import wire
from harness.errors import HarnessError, WorkerError
from harness.findings.versions import installed

PACKAGE = "triton"


def supported() -> SpecifierSet:
    """Return the range of Triton releases in the metadata of the harness; any release if it has no metadata."""
    try:
        needed = map(Requirement, requires("kernel-harness") or ())
    except PackageNotFoundError:
        return SpecifierSet()
    return next((requirement.specifier for requirement in needed if requirement.name == PACKAGE), SpecifierSet())


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledTriton:
    """One Triton in a folder of its own."""

    folder: Path
    version: str

    def answer_of(
        self, program: str, request: object, *, limit_s: float | None = None, shows_progress: bool = False
    ) -> str:
        """Run the module `program` on a request with this Triton, and return its answer as JSON.

        Args:
            program: a module that calls `serve`.
            request: any value that `wire` writes.
            limit_s: None for a program that ends by itself.
            shows_progress: True if what it prints on the error stream appears here.

        Raises:
            WorkerError: the program refuses the request, fails, does not end, or loads another Triton.
        """
        path = os.pathsep.join(part for part in (str(self.folder), os.environ.get("PYTHONPATH")) if part)
        try:
            finished = subprocess.run(
                [sys.executable, "-m", program],
                input=wire.to_json(request),
                env=os.environ | {"PYTHONPATH": path},
                stdout=subprocess.PIPE,
                stderr=None if shows_progress else subprocess.PIPE,
                text=True,
                check=False,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            raise WorkerError(f"the process with triton {self.version} did not end within {limit_s:g} s") from None
        match _last_json(finished.stdout) if not finished.returncode else None:
            case {"triton": str(other)} if not _are_equal(other, self.version):
                raise WorkerError(
                    f"triton {self.version} was requested, and {other} was imported: does PYTHONPATH name another?"
                )
            case {"answer": answer}:
                return json.dumps(answer)
            case {"error": str(error)}:
                raise WorkerError(f"with triton {self.version}: {error}")
            case _:
                lines = (finished.stderr or "").strip().splitlines() or [f"status {finished.returncode}"]
                raise WorkerError(f"the process with triton {self.version} failed: {lines[-1]}")


def serve(answer: Callable[[str], object]) -> int:
    """Answer the request on standard input, and return the exit status of the program."""
    with redirect_stdout(sys.stderr):
        result: dict[str, Any] = {"triton": installed(PACKAGE)}
        try:
            result["answer"] = json.loads(wire.to_json(answer(sys.stdin.read())))
        except HarnessError as error:
            result["error"] = str(error)
    sys.stdout.write(f"{json.dumps(result)}\n")
    return 0


def _last_json(output: str) -> object:
    lines = output.splitlines() or ["null"]
    try:
        return json.loads(lines[-1])
    except ValueError:
        return None


def _are_equal(first: str, second: str) -> bool:
    return first == second or (bool(first) and Version(first) == Version(second))
