"""Calls of a library as a test made them: what `harness run` records, and a suite's draft is made from.

Each test function has a file of its own under `.harness/calls`.  The latest run of a test replaces what is there.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from harness.errors import ReplayError, UsageError, unknown
from harness.model.case import HARNESS_FOLDER
from harness.model.input_spec import Contiguity
from harness.wire import Scalar, from_json, to_json

FOLDER = HARNESS_FOLDER / "calls"
MOST_CALLS = 64
"""Calls that the file of one test function keeps."""


class ArgumentKind(StrEnum):
    """What an argument of a call is."""

    TENSOR = "tensor"
    SCALAR = "scalar"
    """A number, a truth value, a string or None."""
    OTHER = "other"
    """Anything that a suite cannot make again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenArgument:
    """One argument of a call; fields that do not concern its kind are at their defaults."""

    kind: ArgumentKind
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    """In elements."""
    dtype: str = ""
    """As torch names it, without the module: `bfloat16`."""
    requires_grad: bool = False
    low: int = 0
    """The smallest element of a small tensor of integers."""
    high: int = 0
    """The largest one."""
    total: int = 0
    """The sum of the elements of a small tensor of integers."""
    smallest: float = 0.0
    """The smallest element of a small tensor of floating-point numbers, all of them finite."""
    largest: float = 0.0
    """The largest one."""
    sums_to_one: bool = False
    """True for numbers of which each row sums to one, along the last axis."""
    rises: bool = False
    """True for integers that begin with 0 and never fall, such as boundaries of packed sequences."""
    is_distinct: bool = False
    """True for integers that all differ."""
    has_distinct_rows: bool = False
    """True for integers of which those of each row differ, along the last axis."""
    is_ascending: bool = False
    """True for integers that are sorted along the last axis."""
    scalar: Scalar = None
    other: str = ""
    """The type's name, for any other argument."""

    @property
    def contiguity(self) -> Contiguity:
        """What the memory of a tensor has: True if it is contiguous, `"rows"` if its rows are, and share none."""
        dense = 1
        is_contiguous = has_rows = True
        for axis in reversed(range(len(self.shape))):
            extent, stride = self.shape[axis], self.strides[axis]
            if extent != 1:
                is_contiguous &= stride == dense
                has_rows &= stride == 1 if axis == len(self.shape) - 1 else stride >= dense
                dense = max(dense, stride) * extent
        return True if is_contiguous else "rows" if has_rows else False


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCall:
    """One call that launched a kernel."""

    test: str
    """As pytest names it: `tests/test_norm.py::test_backward[64]`; for a script its name."""
    module: str
    name: str
    """What was called: `rms_norm`, or `RMSNorm.apply` of an autograd function."""
    file: str
    """The absolute path of its module."""
    folder: str
    """The folder from which Python imports the module; empty for installed packages and libraries of `--with`."""
    is_kernel: bool = False
    """True if the test launched the kernel itself."""
    arguments: Mapping[str, SeenArgument]
    """By parameter."""
    called_as: str = ""
    """What the test calls, as its source has it: `rms_norm`, or `layer` if the call of a module led to the function."""
    written: Mapping[str, str] = field(default_factory=dict[str, str])
    """The source of each argument in the test, as far as the test itself makes the call."""
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """The whole numbers that the test has under a name."""
    line: int = 0
    """The line of the test's file."""
    kernel: str = ""
    """The first kernel that it launched."""
    grid: tuple[int, ...] = ()
    """Of a launch that the test made itself."""

    @property
    def test_function(self) -> str:
        """The test without its parameters."""
        return function_of(self.test)


def function_of(test: str) -> str:
    """Return the name of a test without its parameters: `test_norm.py::test_backward`."""
    return test.partition("[")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTest:
    """The file of one test function."""

    test: str
    """Without its parameters."""
    libraries: tuple[str, ...] = ()
    """As given by `--with`."""
    calls: tuple[SeenCall, ...]


def store(calls: Iterable[SeenCall], libraries: tuple[str, ...], folder: Path) -> None:
    """Write the calls of each test function into its file."""
    by_test: dict[str, list[SeenCall]] = {}
    for call in calls:
        by_test.setdefault(call.test_function, []).append(call)
    for test, seen in by_test.items():
        document = SeenTest(test=test, libraries=libraries, calls=tuple(seen[:MOST_CALLS]))
        (folder / _name(test)).write_text(to_json(document), encoding="utf-8")


def load(test: str, folder: Path) -> SeenTest:
    """Return what a test called; with parameters in its name, only the calls of that one.

    Raises:
        UsageError: no run saw a launch of that test.
    """
    path = folder / _name(function_of(test))
    try:
        seen = from_json(path.read_bytes(), SeenTest)
    except FileNotFoundError:
        known = _known(folder)
        if known:
            raise unknown("test", test, known) from None
        raise UsageError("no test was seen here: run it first, as harness run -- pytest tests") from None
    except (OSError, ReplayError):
        raise UsageError(f"{path} is not readable: run the test again by harness run -- pytest {test}") from None
    if function_of(test) == test:
        return seen
    calls = tuple(call for call in seen.calls if call.test == test)
    if not calls:
        raise unknown("test", test, dict.fromkeys(call.test for call in seen.calls))
    return SeenTest(test=seen.test, libraries=seen.libraries, calls=calls)


def _known(folder: Path) -> list[str]:
    tests: list[str] = []
    for path in sorted(folder.glob("*.json")):
        try:
            tests.append(from_json(path.read_bytes(), SeenTest).test)
        except (OSError, ReplayError):  # of another release
            continue
    return tests


def _name(test: str) -> str:
    return f"{hashlib.sha256(test.encode()).hexdigest()[:16]}.json"
