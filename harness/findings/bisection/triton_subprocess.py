"""Check a recorded case with another Triton than the installed one.

Triton cannot be installed for the workers alone: parent, workers and the background compiler must agree on it.  So a
separate process tree runs the check.  Its PYTHONPATH begins with a folder that holds only that Triton.  Everything
else, such as torch and the harness, is what is installed here.

`python -m harness.findings.bisection.triton_subprocess` reads a `MemberTrial` and prints a `MemberCheck`, both as JSON.
"""

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from harness import libraries, wire
from harness.errors import HarnessError, LibraryError, WorkerError
from harness.findings.bisection.binary_search import Shown
from harness.findings.bisection.member_check import MemberCheck, MemberTrial
from harness.findings.versions import installed
from harness.settings import Settings

PACKAGE = "triton"
LIMIT_S = 3600.0
"""Far above the time limits of all runs of one case."""


def supported() -> SpecifierSet:
    """Return the range of Triton releases in the metadata of the harness; any release if it has no metadata."""
    try:
        needed = map(Requirement, requires("kernel-harness") or ())
    except PackageNotFoundError:
        return SpecifierSet()
    return next((requirement.specifier for requirement in needed if requirement.name == PACKAGE), SpecifierSet())


def check_with_triton(version: Version, trial: MemberTrial, cache: Path) -> MemberCheck:
    """Check the case with this Triton.  Skip a release that is out of range or cannot be installed.

    Raises:
        WorkerError: the other process fails or loads another Triton.
    """
    if not supported().contains(version, prereleases=True):
        return MemberCheck(shown=Shown.SKIP, explanation=f"the harness works with triton{supported()}")
    try:
        (folder,) = libraries.resolve([f"{PACKAGE}=={version}"], cache=cache)
    except LibraryError as error:
        return MemberCheck(shown=Shown.SKIP, explanation=str(error))
    path = os.pathsep.join(part for part in (folder, os.environ.get("PYTHONPATH")) if part)
    try:
        finished = subprocess.run(
            [sys.executable, "-m", __name__],
            input=wire.to_json(trial),
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise WorkerError(f"the process with triton {version} did not end within {LIMIT_S:g} s") from None
    output = finished.stdout.splitlines() or ["null"]
    match json.loads(output[-1]) if not finished.returncode else None:
        case {"triton": str(other)} if Version(other) != version:
            raise WorkerError(
                f"triton {version} was requested, and {other} was imported: does PYTHONPATH name another?"
            )
        case {"check": check}:
            return wire.from_json(json.dumps(check), MemberCheck)
        case _:
            lines = finished.stderr.strip().splitlines() or [f"status {finished.returncode}"]
            raise WorkerError(f"the process with triton {version} failed: {lines[-1]}")


def main() -> int:
    """Run the check in the other process."""
    trial = wire.from_json(sys.stdin.read(), MemberTrial)
    try:
        check = trial.check(Settings.from_environment(os.environ))
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    answer = {"triton": installed(PACKAGE), "check": json.loads(wire.to_json(check))}
    sys.stdout.write(f"{json.dumps(answer)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
