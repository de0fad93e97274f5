"""Looking at a recorded case with another Triton than the one that is installed here.

Triton is no library under test that workers could be given: parent, workers and the compiler beside the search must
agree on it.  So the look is taken by a whole process tree of its own, whose path begins with a folder that holds that
Triton alone; all else, torch and the harness too, is what is installed here.

    python -m harness.bisection.triton_subprocess   reads `Orders` as JSON, prints the `MemberCheck` as JSON
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from harness import libraries, wire
from harness.bisection.binary_search import Shown
from harness.bisection.member_check import MemberCheck, look_at
from harness.errors import HarnessError, LibraryError, WorkerError
from harness.findings.replay import Recorded
from harness.findings.rerun import options_for
from harness.findings.versions import installed

PACKAGE = "triton"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the other process is to do."""

    recorded: Recorded
    libraries: tuple[str, ...]
    engine: str
    time_limit_s: float
    runs: int


def supported() -> SpecifierSet:
    """The releases of Triton that this harness works with, as its own metadata says; any, where there is none."""
    try:
        needed = map(Requirement, requires("kernel-harness") or ())
    except PackageNotFoundError:
        return SpecifierSet()
    return next((one.specifier for one in needed if one.name == PACKAGE), SpecifierSet())


def look_with(version: Version, orders: Orders) -> MemberCheck:
    """What the case shows with this Triton; one that is out of range or cannot be installed is skipped.

    Raises:
        WorkerError: the other process does not answer as it should.
    """
    if not supported().contains(version, prereleases=True):
        return MemberCheck(shown=Shown.SKIP, words=f"the harness works with triton{supported()}")
    try:
        (folder,) = libraries.resolve([f"{PACKAGE}=={version}"])
    except LibraryError as error:
        return MemberCheck(shown=Shown.SKIP, words=str(error))
    path = os.pathsep.join(part for part in (folder, os.environ.get("PYTHONPATH")) if part)
    finished = subprocess.run(
        [sys.executable, "-m", __name__],
        input=wire.to_json(orders),
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    said = finished.stdout.splitlines() or ["null"]
    match json.loads(said[-1]) if not finished.returncode else None:
        case {"triton": str(other)} if Version(other) != version:
            raise WorkerError(f"triton {version} was asked for, and {other} came: is PYTHONPATH set to another?")
        case {"look": look}:
            return wire.from_json(json.dumps(look), MemberCheck)
        case _:
            lines = finished.stderr.strip().splitlines() or [f"status {finished.returncode}"]
            raise WorkerError(f"the process with triton {version} failed: {lines[-1]}")


def main() -> int:
    """The other process."""
    orders = wire.from_json(sys.stdin.read(), Orders)
    try:
        options = options_for(
            orders.recorded,
            libraries=orders.libraries,
            time_limit_s=orders.time_limit_s,
            engine=orders.engine,
        )
        look = look_at(orders.recorded, options, orders.runs)
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    answer = {"triton": installed(PACKAGE), "look": json.loads(wire.to_json(look))}
    sys.stdout.write(f"{json.dumps(answer)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
