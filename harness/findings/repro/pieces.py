"""What a child tells of a case as pieces of a program; the parent puts files together of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.model.case import Case

FOLDER = "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preamble:
    """What comes before `run`: imports, and definitions in the order in which they need each other."""

    imports: tuple[str, ...]
    blocks: tuple[str, ...]
    missing: tuple[str, ...] = ()
    """What could not be written down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """The op as the case calls it."""

    name: str
    preamble: Preamble
    statements: tuple[str, ...]
    """Of `run(device)`; the last returns the results by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRecord:
    """One launch of a kernel, as it came to the driver."""

    kernel: str
    preamble: Preamble
    drawn: tuple[str, ...]
    """Statements that make the arguments, of large ones numbers of the same kind."""
    exact: tuple[str, ...]
    """The same with the very values."""
    exact_missing: tuple[str, ...]
    call: str
    arguments: Mapping[str, str]
    """By the kernel's name of it, the variable that holds a tensor."""
    results: Mapping[str, str]
    """By the op's name of it, an expression for each result that lies in one of the arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthRecord:
    """What one result should be, and how far off it may be."""

    expression: str
    """Of a float64 tensor; empty where that is too large to write down."""
    whole: float
    """Root-mean-square over the whole result."""
    row: float
    """And over any row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePieces:
    """All of one case."""

    plain: CallRecord
    defined: CallRecord
    """With the definition: `run(device, exact=True)` is that in float64."""
    launches: tuple[LaunchRecord, ...]
    truths: Mapping[str, TruthRecord] = field(default_factory=dict[str, TruthRecord])


def place(scratch: Path, case: Case) -> Path:
    """Where the child leaves the record of a case."""
    return scratch / FOLDER / f"{case.digest}.json"
