"""`python -m studies.miscompiled [--blame] [NAME …]`: run the kernels as PTX, and say what each shows.

Each kernel runs in a process of its own, as on the first GPU of its list.  Exit status 1: a kernel does not show what
its file says of the installed release.  `--blame` also prints the first wrong value and the blamed pass of each.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator

from triton import __version__ as release

from studies.miscompiled.miscompiled_kernel import ERROR, NAMES, VALUES, Shown, expected, load, look_into, run


def _output(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "studies.miscompiled", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _looked_into(name: str, flaw: str) -> str:
    """Return the first wrong value and the blamed pass of a kernel as lines."""
    seen = look_into(load(name), flaw, blames_passes=True)
    if seen is None:
        return "  its TTIR is wrong already"
    first = seen.first or seen.first_unknown
    line = f"  first value: {first}\n" if first else ""
    return f"{line}  blamed pass: {seen.passes or seen.passes_unknown}"


def _shown(names: list[str]) -> Iterator[tuple[str, Shown]]:
    for name in names:
        done = _output("--alone", name)
        last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
        yield name, Shown.read(last) if done.returncode == 0 else Shown(kind=ERROR, text=done.stderr[-200:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--blame", action="store_true", help="also look into those that show a fault")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--flaw", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.names or list(NAMES)
    if options.alone:
        print(run(load(names[0])) if options.flaw is None else _looked_into(names[0], options.flaw))
        return 0
    wrong = 0
    for name, shown in _shown(names):
        is_expected = shown.kind != ERROR and shown.is_fault is expected(load(name), release)
        wrong += not is_expected
        note = "" if is_expected else "  (not as the file says)"
        print(f"{name:28} Triton {release}  {shown}{note}", flush=True)
        if options.blame and shown.is_fault:
            print(
                _output("--alone", "--flaw", "" if shown.kind == VALUES else shown.kind, name).stdout.rstrip(),
                flush=True,
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
