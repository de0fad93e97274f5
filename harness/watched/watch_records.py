"""What a watched process writes for its parent: the plan it reads, and JSON lines of what it saw.

Each process has files of its own, so that processes need no lock.  A line is complete or the last of its file: a
process may die at any time.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from harness.drafts.seen_calls import SeenCall
from harness.errors import ReplayError
from harness.model.case import DType
from harness.model.compute_sanitizer_report import Tool
from harness.model.device import DeviceProfile
from harness.model.engine_traits import VIRTUAL
from harness.model.run import Launch, Source
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.oracles.traits import PromiseScope
from harness.wire import from_json, to_json

FOLDER_VARIABLE = "HARNESS_WATCH"
"""The environment variable that names the folder of a watched command."""
TEST_VARIABLE = "PYTEST_CURRENT_TEST"
"""The environment variable in which pytest names the test that runs."""
PLAN, RECORDING = "plan.json", ".launch.pt"
PER_LAUNCH = (*registry.names_of(PromiseScope.LAUNCH), *registry.names_of(PromiseScope.REPLAY))
"""The oracles that judge a launch, or a replay, without a reference and without another case."""


class CannotRecord(Exception):
    """The launch has an argument, or a kernel, that another process cannot make again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerPlan:
    """The tool of compute-sanitizer that the whole command runs under."""

    tool: Tool
    version: str
    log: str
    """The file that the tool prints to."""
    unproven: str = ""
    """Why silence of the tool proves nothing; empty if it has reported a planted mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPlan:
    """What the processes of a watched command do."""

    device: DeviceProfile
    oracles: tuple[str, ...]
    """The names of the oracles that judge each launch."""
    scratch: str
    """The folder of Triton's cache and of native code."""
    engine: str = VIRTUAL.name
    """What executes the launches, if no hardware does."""
    libraries: tuple[str, ...] = ()
    """Folders of the libraries under test: lines there are not the caller's own."""
    on_hardware: bool = False
    """True to launch on the GPU that the environment names; False to emulate one."""
    sanitizer: SanitizerPlan | None = None
    accepts: str = ""
    """The file of accepted reports of the sanitizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestChecks:
    """What one process checked in one test, or in the whole script."""

    __test__ = False  # pytest must not collect it

    test: str
    """As pytest names it: `tests/test_norm.py::test_backward[64]`; for a script its name."""
    launches: int = 0
    judged: Mapping[str, int] = field(default_factory=dict[str, int])
    """Launches by the oracle that passed or failed them."""
    failed: Mapping[str, int] = field(default_factory=dict[str, int])
    """Launches by the oracle that failed them."""
    unchecked: Mapping[str, int] = field(default_factory=dict[str, int])
    """Launches that no oracle could check, by reason."""
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFailure:
    """The first launch of a test in one process that shows a failure."""

    test: str
    fail: Fail
    dtype: DType
    """Of the first floating-point argument."""
    launch: Launch | None
    called_from: Source | None
    """The line of the caller's own code that led to the launch; None if there is none outside libraries."""
    captured_at: Source | None = None
    """The line from which a CUDA graph captured the launch; `called_from` is that of the replay."""
    recording: str = ""
    """The name of the file that repeats the launch, in the folder of the command; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedBuild:
    """The first launch of a build in one test and one process."""

    test: str
    dtype: DType
    """Of the first floating-point argument."""
    launch: Launch
    called_from: Source | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UncompiledProgram:
    """A program of `torch.compile`, or a graph of one, that ran uncompiled."""

    reason: str


Record = TestChecks | LaunchFailure | LaunchedBuild | SeenCall | UncompiledProgram
R = TypeVar("R", TestChecks, LaunchFailure, LaunchedBuild, SeenCall, UncompiledProgram)


class RecordFiles:
    """The files of this process.  A forked child has files of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recordings = 0

    def record(self, save: Callable[[Path], None]) -> str:
        """Write a launch into a file of its own and return the file's name; empty if it cannot be repeated."""
        self._recordings += 1
        name = f"{os.getpid()}-{self._recordings}{RECORDING}"
        try:
            save(self._folder / name)
        except CannotRecord:
            return ""
        return name

    def add(self, record: Record) -> None:
        """Append one record."""
        line = f"{to_json(record)}\n".encode()
        file = self._folder / f"{os.getpid()}{_suffix(type(record))}"
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def read_checks(folder: Path) -> tuple[TestChecks, ...]:
    """Return what each process checked in each test: of several records the last, which counts what came before."""
    latest = {(file, record.test): record for file, record in _read(folder, TestChecks)}
    return tuple(latest.values())


def read_failures(folder: Path) -> tuple[LaunchFailure, ...]:
    """Return the failures of all processes, by test."""
    return tuple(sorted((failure for _, failure in _read(folder, LaunchFailure)), key=lambda failure: failure.test))


class LaunchedBuilds:
    """The builds that processes launch, read while they run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        """By file, the bytes that were read."""

    def new(self) -> tuple[LaunchedBuild, ...]:
        """Return those that were written since the last call, by test and process."""
        builds: list[LaunchedBuild] = []
        for file in _files(self._folder, LaunchedBuild):
            with file.open("rb") as records:
                records.seek(self._read.get(file, 0))
                text = records.read()
            complete = text[: text.rfind(b"\n") + 1]
            self._read[file] = self._read.get(file, 0) + len(complete)
            builds += _records(complete, LaunchedBuild)
        return tuple(builds)


def read_calls(folder: Path) -> tuple[SeenCall, ...]:
    """Return the calls that tests of all processes made, in the order of each process."""
    return tuple(call for _, call in _read(folder, SeenCall))


def read_uncompiled(folder: Path) -> Mapping[str, int]:
    """Return how many programs of `torch.compile` ran uncompiled, by reason."""
    return dict(Counter(program.reason for _, program in _read(folder, UncompiledProgram)))


def _suffix(kind: type[Record]) -> str:
    return f".{kind.__name__}.jsonl"


def _files(folder: Path, kind: type[Record]) -> list[Path]:
    return sorted(folder.glob(f"*{_suffix(kind)}"))


def _read(folder: Path, kind: type[R]) -> Iterator[tuple[Path, R]]:
    return ((file, record) for file in _files(folder, kind) for record in _records(file.read_bytes(), kind))


def _records(text: bytes, kind: type[R]) -> Iterator[R]:
    for line in text.splitlines():
        try:
            yield from_json(line, kind)
        except ReplayError:  # a process died while it wrote its last line
            return
