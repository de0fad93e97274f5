"""The facts of a row check: results of a case beside those of the same rows in other company.

Rows are the indices of an independent dim of the op, or packed sequences.  `harness.execution.row_trials` makes the
trials.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from harness.model.ending import Ending


class RowChange(StrEnum):
    """What a trial changes around the rows that it keeps."""

    PART = "part"
    """The other rows are left out; of packed sequences, all but one."""
    PERMUTED = "permuted"
    """The rows stand in another order."""
    OTHER_VALUES = "other values"
    """The other rows hold other values."""
    PADDED = "padded"
    """More rows follow."""


PLAIN_SUMS = frozenset(
    f"aten.{name}"
    for name in ("cumsum", "linalg_vector_norm", "logsumexp", "mean", "std", "std_mean", "sum", "var", "var_mean")
)
"""Those of `RowTrial.torch_sums` that are no matrix products."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """A result of which a kept row has other bits in a trial."""

    name: str
    """As `Result.name`."""
    index: tuple[int, ...]
    """The index of the first differing element, in the result of the case."""
    value: float
    """Its value in the case."""
    other: float
    """Its value in the trial."""
    cells: int
    """The number of differing elements."""
    compared: int
    """The number of compared elements."""
    ratio: float
    """The difference in units of what two right results may differ by, at its largest; above 1 rounding is no cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """A kernel that the trial launched with another config or with other constants."""

    kernel: str
    before: str
    """Of the case: `BLOCK: 16, num_warps: 4`.  Of a kernel with an autotuner, its config, else what differs."""
    after: str
    """Of the trial; empty if it did not launch the kernel."""
    is_config: bool = False
    """True if an autotuner has the choice."""
    is_tile: bool = False
    """True if the extents of its tiles differ, or its warps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTrial:
    """A rerun of the case with the kept rows in other company."""

    change: RowChange
    dims: Mapping[str, int]
    """The dims of the rerun that differ from those of the case."""
    rows: int
    """The number of rows that were kept."""
    ending: Ending
    compared: tuple[str, ...] = ()
    """The results that carry the rows, and were compared."""
    differences: tuple[RowDifference, ...] = ()
    settings: tuple[SettingChange, ...] = ()
    torch_sums: tuple[str, ...] = ()
    """The operators by which torch added up terms for the library, by name: `aten.mm`, `aten.sum`.

    On the virtual GPU they run on the CPU, whose own tiles follow the number of rows.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCheck:
    """The trials of a case, on one kind of rows."""

    rows: str
    """The independent dim, or the input with the boundaries of the sequences."""
    is_packed: bool = False
    """True if the rows are packed sequences."""
    trials: tuple[RowTrial, ...] = ()
    obstacle: str = ""
    """Why there is no trial; empty if there is one."""


class RowBits(StrEnum):
    """What row checks say about the results of a kernel with one config, the best first."""

    SAME = "same bits"
    RETILED = "same bits, other tiles"
    """The kernel ran with other tiles or warps, and threads of a hardware GPU may add up in another order."""
    ROUNDING = "rounding"
    WRONG = "wrong"

    @classmethod
    def of(cls, ratio: float) -> "RowBits":
        """Return what a difference of this `RowDifference.ratio` is."""
        return cls.ROUNDING if ratio <= 1 else cls.WRONG


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RowCell:
    """A kernel with one config, and what a row check says about the results that it stored."""

    kernel: str
    """Empty if torch stored them."""
    config: str
    """The config of an autotuned kernel; empty for others."""
    bits: RowBits
