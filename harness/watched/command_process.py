"""Starts a command whose Python processes become the emulated GPU, and waits for its end."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from harness.errors import UsageError
from harness.model.case import HARNESS_FOLDER
from harness.model.device import DeviceProfile
from harness.search.session import prepared
from harness.watched.watch_records import FOLDER_VARIABLE, PER_LAUNCH, WatchPlan

STARTUP = Path(__file__).parent / "startup"
LONGEST_SLEEP_S = 60.0
"""Python wakes up much more often in a wait with a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """How a command ended."""

    status: int
    """As a shell has it: 128 and the signal's number for a command that died of a signal."""
    was_interrupted: bool
    """True if this process got a signal to end meanwhile."""
    seconds: float


def watch_plan(
    device: DeviceProfile, oracles: tuple[str, ...] = PER_LAUNCH, libraries: tuple[str, ...] = ()
) -> WatchPlan:
    """Return a plan for the virtual GPU.  Its caches are in the project's `.harness`, apart from those of searches."""
    scratch = prepared(HARNESS_FOLDER) / "watched"
    return WatchPlan(device=device, oracles=oracles, scratch=str(scratch.resolve()), libraries=libraries)


def watched_environment(
    environment: Mapping[str, str], folder: Path, library_paths: Sequence[str]
) -> Mapping[str, str]:
    """Return the environment of the command: Python's startup file first, then the libraries under test."""
    own_path = environment.get("PYTHONPATH")
    paths = [str(STARTUP), *library_paths, *([own_path] if own_path else [])]
    programs = str(Path(sys.executable).parent)
    search = environment.get("PATH", os.defpath)
    return {
        **environment,
        "PYTHONPATH": os.pathsep.join(paths),
        # `harness run -- pytest` takes the pytest of the harness's own environment, also if that is not activated.
        "PATH": search if programs in search.split(os.pathsep) else os.pathsep.join((programs, search)),
        FOLDER_VARIABLE: str(folder.resolve()),
    }


def run_command(words: Sequence[str], environment: Mapping[str, str], before: Sequence[str] = ()) -> CommandEnd:
    """Run the command in the foreground, with the terminal of this process.

    Ctrl-C reaches the command from the terminal; it decides what follows.  SIGTERM and SIGHUP are handed on.

    Args:
        words: the command and its arguments.
        environment: the variables of its processes.
        before: a program that starts the command, with its options.

    Raises:
        UsageError: the command does not exist, or cannot be started.
    """
    program = shutil.which(words[0], path=environment["PATH"])
    if program is None:
        raise UsageError(f"there is no command {words[0]!r}")
    try:
        child = subprocess.Popen([*before, program, *words[1:]], env=environment)
    except OSError as error:
        raise UsageError(f"cannot run {words[0]}: {error.strerror}") from None
    received: list[int] = []
    begun = time.monotonic()

    def hand_on(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)
        if number == signal.SIGINT:
            return
        for process in _command_in(child.pid) if before else (child,):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.signal(number, hand_on) for number in numbers}
    try:
        status = _wait(child)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return CommandEnd(
        status=status if status >= 0 else 128 - status,
        was_interrupted=bool(received),
        seconds=time.monotonic() - begun,
    )


def _wait(child: "subprocess.Popen[bytes]") -> int:
    """Wait for the end of a process, and handle signals meanwhile.

    The system may deliver a signal to another thread.  Python handles it in this one, which must not sleep for ever.
    """
    while True:
        try:
            return child.wait(timeout=LONGEST_SLEEP_S)
        except subprocess.TimeoutExpired:
            continue


def _command_in(pid: int) -> list[psutil.Process]:
    """Return the processes that a program has started; itself if it has started none."""
    try:
        tool = psutil.Process(pid)
        return tool.children(recursive=True) or [tool]
    except psutil.NoSuchProcess:
        return []
