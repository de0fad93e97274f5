"""`python -m studies.miscompiled [NAME …]`: run the kernels as PTX, and say what each shows.

Each kernel runs in a process of its own, as on the first GPU of its list.  Exit status 1: a kernel does not show what
its file says of the installed release.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator

from triton import __version__ as release

from studies.miscompiled.miscompiled_kernel import ERROR, NAMES, Shown, expected, load, run


def _shown(names: list[str]) -> Iterator[tuple[str, Shown]]:
    for name in names:
        done = subprocess.run(
            [sys.executable, "-m", "studies.miscompiled", "--alone", name], capture_output=True, text=True, check=False
        )
        last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
        yield name, Shown.read(last) if done.returncode == 0 else Shown(kind=ERROR, text=done.stderr[-200:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.names or list(NAMES)
    if options.alone:
        print(run(load(names[0])))
        return 0
    wrong = 0
    for name, shown in _shown(names):
        is_expected = shown.kind != ERROR and shown.is_fault is expected(load(name), release)
        wrong += not is_expected
        note = "" if is_expected else "  (not as the file says)"
        print(f"{name:28} Triton {release}  {shown}{note}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
