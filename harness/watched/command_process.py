"""Starts a command whose Python processes become the emulated GPU, and waits for its end."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from harness.errors import UsageError
from harness.model.case import HARNESS_FOLDER
from harness.model.device import DeviceProfile
from harness.search.session import prepared
from harness.watched import reaper
from harness.watched.watch_records import FOLDER_VARIABLE, PER_LAUNCH, TEST_VARIABLE, WatchPlan

STARTUP = Path(__file__).parent / "startup"
LONGEST_SLEEP_S = 1.0
"""A signal handler sets a deadline, which a wait that has begun does not know.  Python wakes up more often anyway."""
ENDING_S = 5.0
"""Time of a command to end after SIGTERM, shorter than that of CI systems before they kill the harness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """How a command ended."""

    status: int
    """As a shell has it: 128 and the signal's number for a command that died of a signal."""
    was_interrupted: bool
    """True if this process got a signal to end meanwhile, or the time was up."""
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
        # The test that starts the command, if any, is none of the command's.
        **{name: value for name, value in environment.items() if name != TEST_VARIABLE},
        "PYTHONPATH": os.pathsep.join(paths),
        # `harness run -- pytest` takes the pytest of the harness's own environment, also if that is not activated.
        "PATH": search if programs in search.split(os.pathsep) else os.pathsep.join((programs, search)),
        FOLDER_VARIABLE: str(folder.resolve()),
    }


def run_command(
    words: Sequence[str], environment: Mapping[str, str], before: Sequence[str] = (), limit_s: float | None = None
) -> CommandEnd:
    """Run the command in the foreground, with the terminal of this process.

    Ctrl-C reaches the command from the terminal; it decides what follows.  SIGTERM and SIGHUP are handed on, and after
    the time limit it gets SIGTERM.  If it does not end within `ENDING_S` after that, all its processes are killed, as
    they are if this process is killed.

    Args:
        words: the command and its arguments.
        environment: the variables of its processes.
        before: a program that starts the command, with its options.
        limit_s: the time limit.

    Raises:
        UsageError: the command does not exist, or cannot be started.
    """
    program = shutil.which(words[0], path=environment["PATH"])
    if program is None:
        raise UsageError(f"there is no command {words[0]!r}")
    with _reaped(environment[FOLDER_VARIABLE]):
        try:
            child = subprocess.Popen([*before, program, *words[1:]], env=environment)
        except OSError as error:
            raise UsageError(f"cannot run {words[0]}: {error.strerror}") from None
        return _waited(child, environment[FOLDER_VARIABLE], is_wrapped=bool(before), limit_s=limit_s)


@contextmanager
def _reaped(folder: str) -> Generator[None]:
    """Have the processes of a command killed, and its folder removed, if this process is killed in the block."""
    own = subprocess.Popen(
        [sys.executable, "-I", "-S", reaper.__file__, FOLDER_VARIABLE, folder],
        env={name: value for name, value in os.environ.items() if name != FOLDER_VARIABLE},  # a watched command's own
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,  # a pipe of the user's would not end before the reaper
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # neither Ctrl-C nor the end of the terminal reaches it
    )
    try:
        yield
    finally:
        own.communicate(reaper.DONE)


def _waited(child: "subprocess.Popen[bytes]", folder: str, *, is_wrapped: bool, limit_s: float | None) -> CommandEnd:
    received: list[int] = []
    begun = time.monotonic()
    deadline = begun + limit_s if limit_s is not None else None

    def hand_on(number: int, frame: FrameType | None) -> None:
        nonlocal deadline
        del frame
        received.append(number)
        if number == signal.SIGINT:
            return
        deadline = min(deadline or sys.float_info.max, time.monotonic() + ENDING_S)
        for process in _command_in(child.pid) if is_wrapped else (child,):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.signal(number, hand_on) for number in numbers}
    try:
        # The system may deliver a signal to another thread.  Python handles it in this one, which must not sleep for
        # ever.
        while child.poll() is None:
            left_s = LONGEST_SLEEP_S if deadline is None else deadline - time.monotonic()
            if left_s > 0:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=min(left_s, LONGEST_SLEEP_S))
            elif {signal.SIGTERM, signal.SIGHUP}.isdisjoint(received):
                deadline = None
                hand_on(signal.SIGTERM, None)
            else:
                reaper.end_all(FOLDER_VARIABLE, folder)
                child.kill()
                child.wait()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    status = child.returncode
    return CommandEnd(
        status=status if status >= 0 else 128 - status,
        was_interrupted=bool(received),
        seconds=time.monotonic() - begun,
    )


def _command_in(pid: int) -> list[psutil.Process]:
    """Return the processes that a program has started; itself if it has started none."""
    try:
        tool = psutil.Process(pid)
        return tool.children(recursive=True) or [tool]
    except psutil.NoSuchProcess:
        return []
