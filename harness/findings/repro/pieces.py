"""The pieces of a program that a child records of a case; the parent assembles files from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.model.case import Case

FOLDER = "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preamble:
    """The code before `run`: imports, and definitions in the order of their use."""

    imports: tuple[str, ...]
    blocks: tuple[str, ...]
    missing: tuple[str, ...] = ()
    """Names that cannot be written as code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """The op's call in the case."""

    name: str
    preamble: Preamble
    statements: tuple[str, ...]
    """The body of `run(device)`; the last one returns the results by name."""
    forward: tuple[str, ...] = ()
    """The same without a backward pass; empty if the op did not return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRecord:
    """A trial of a row check of which a result differs."""

    call: CallRecord
    """The call, with the rows of the case or of the trial: `run(device, other_rows=True)`."""
    change: str
    """An expression: what the trial changes, as `harness.repro_runtime.other_rows` reads it."""
    kept: Mapping[str, tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]]
    """By differing result, for each axis that carries rows: the axis, and the compared indices here and there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRecord:
    """One launch of a kernel, as it reached the driver."""

    kernel: str
    preamble: Preamble
    drawn: tuple[str, ...]
    """Statements that make the arguments; large ones are drawn from a similar distribution."""
    exact: tuple[str, ...]
    """The same statements with the exact values."""
    exact_missing: tuple[str, ...]
    call: str
    arguments: Mapping[str, str]
    """The variable of each tensor, by the kernel's parameter name."""
    results: Mapping[str, str]
    """An expression for each result that lies in one of the arguments, by the op's name of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthRecord:
    """The expected value of one result, and its tolerance."""

    expression: str
    """A float64 tensor; empty if it is too large for a file."""
    whole: float
    """Largest root-mean-square error of the whole result."""
    row: float
    """Largest root-mean-square error of any row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePieces:
    """The record of one case."""

    plain: CallRecord
    defined: CallRecord
    """With the reference: `run(device, exact=True)` computes it in float64."""
    launches: tuple[LaunchRecord, ...]
    truths: Mapping[str, TruthRecord] = field(default_factory=dict[str, TruthRecord])
    rows: RowsRecord | None = None
    """None if the rows were not checked, or have the same bits."""


def record_path(scratch: Path, case: Case) -> Path:
    """Return the file in which the child leaves the record of a case."""
    return scratch / FOLDER / f"{case.digest}.json"
