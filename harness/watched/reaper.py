"""Ends all processes of a watched command: a program that clears up after a `harness run` that was killed.

    python reaper.py VARIABLE FOLDER

Its standard input is a pipe that the harness holds.  If the pipe ends without a word, the harness has been killed, by
SIGKILL or for want of memory.  The program imports the standard library alone, so that it starts in milliseconds.
"""

import os
import shutil
import signal
import sys
import time
from pathlib import Path

DONE = b"done"
LIMIT_S = 5.0
PAUSE_S = 0.01


def end_all(variable: str, folder: str) -> None:
    """Kill every process of this user whose environment has this value, until there is none.

    A process group would miss processes with a group of their own, as those of a test runner.  A process in the middle
    of a system call takes a moment to end, and one may be forked meanwhile.
    """
    deadline = time.monotonic() + LIMIT_S
    while (processes := _marked(f"{variable}={folder}".encode())) and time.monotonic() < deadline:
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(PAUSE_S)


def _marked(setting: bytes) -> list[int]:
    marked: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()  # empty for a zombie
        except OSError:  # it has ended, or is another user's
            continue
        if setting in environment.split(b"\0") and int(process.name) != os.getpid():
            marked.append(int(process.name))
    return marked


def main() -> None:
    variable, folder = sys.argv[1:]
    if sys.stdin.buffer.read() != DONE:
        end_all(variable, folder)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
