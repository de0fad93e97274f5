"""Check a recorded case with another Triton than the installed one.

`python -m harness.findings.bisection.triton_subprocess` reads a `MemberTrial` and answers with a `MemberCheck`.
"""

import os
import sys
from pathlib import Path

from packaging.version import Version

from harness import libraries, wire
from harness.errors import LibraryError
from harness.findings.bisection.binary_search import Shown
from harness.findings.bisection.member_check import MemberCheck, MemberTrial
from harness.findings.triton_process import PACKAGE, InstalledTriton, serve, supported
from harness.settings import Settings

PROGRAM = "harness.findings.bisection.triton_subprocess"
LIMIT_S = 3600.0
"""Far above the time limits of all runs of one case."""


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
    installed = InstalledTriton(folder=Path(folder), version=str(version))
    return wire.from_json(installed.answer_of(PROGRAM, trial, limit_s=LIMIT_S), MemberCheck)


def main() -> int:
    """Run the check in the other process."""
    settings = Settings.from_environment(os.environ)
    return serve(lambda request: wire.from_json(request, MemberTrial).check(settings))


if __name__ == "__main__":
    sys.exit(main())
