"""`python -m studies.month FOLDER [--bug ID] [--block CASES]`: run the nights there, and compare with the corpus.

A folder that holds nights goes on with the next one.  Exit status 1: a bug does not appear or go with its release, or
the last night starts slower than the second.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.night import night_memory
from harness.night.bug_history import BugHistory, BugState, NightHistory, history_of
from harness.wording import counted
from studies.month.schedule import BUGS, NIGHTS, ExpectedLife, expected_lives, name_of, settings_of

SLOWER = 1.5
"""How much slower than the second the last night may start: the machine has other work too."""
STARTS = "starts.txt"


def run_night(folder: Path, night: int, settings: str) -> float:
    """Run a night, and return the seconds until it has planned its work."""
    (folder / "harness.toml").write_text(settings, encoding="utf-8")
    begun = time.monotonic()
    command = [sys.executable, "-m", "harness.cli", "night", "--night", name_of(night)]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if " new or changed; " in line:
                started = time.monotonic() - begun
                break
        else:
            sys.exit(f"night {name_of(night)} did not start")
        process.stderr.read()
    print(f"{name_of(night)}: planned after {started:.1f} s, ended after {time.monotonic() - begun:.0f} s", flush=True)
    return started


def lives(expected: ExpectedLife, history: NightHistory) -> Iterator[BugHistory]:
    """Yield the bugs of the nights that are this historical bug."""
    for bug in history.bugs:
        if bug.signature is not None and expected.bug.is_shown_by(bug.signature) and bug.is_confirmed:
            yield bug


def complaints(expected: ExpectedLife, found: Sequence[BugHistory]) -> Iterator[str]:
    """Yield what differs from the expected life.  A changed statement gives a bug another name: all are one life."""
    first = min((bug.first for bug in found), default="no night")
    if first != expected.first:
        yield f"first seen in {first}"
    still = [bug.id for bug in found if bug.state is not BugState.GONE]
    if still:
        yield f"not gone: {', '.join(still)}"
    gone, gone_with = max(((bug.gone_since, bug.gone_with) for bug in found), default=("never", ""))
    if (gone, gone_with) != (expected.gone, expected.gone_with):
        yield f"gone since {gone} with {gone_with}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bug", action="append", choices=tuple(BUGS), help="only this bug; repeatable")
    parser.add_argument("--block", type=int, default=12)
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").touch()
    memory = folder / "nights"
    done = len(night_memory.read(memory).nights)
    names = tuple(options.bug or BUGS)
    for night in range(done, NIGHTS):
        started = run_night(folder, night, settings_of(night, options.block, names))
        with (folder / STARTS).open("a", encoding="utf-8") as file:
            file.write(f"{started:.2f}\n")
    history = history_of(night_memory.read(memory))
    wrong = 0
    for expected in expected_lives(names):
        found = tuple(lives(expected, history))
        said = list(complaints(expected, found))
        wrong += bool(said)
        life = f"there from {expected.first} to {expected.gone} ({expected.gone_with})"
        print(f"{expected.bug.id}: {counted(len(found), 'name')}, {life}: {'; '.join(said) or 'as it should be'}")
    starts = [float(line) for line in (folder / STARTS).read_text(encoding="utf-8").split()]
    print(f"the second night planned after {starts[1]:.1f} s, the last after {starts[-1]:.1f} s")
    return 1 if wrong or starts[-1] > SLOWER * starts[1] else 0


if __name__ == "__main__":
    sys.exit(main())
