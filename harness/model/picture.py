"""The positions of cells in a tensor, coarsely enough to draw: facts of a run, and with captions, parts of a failure.

A tensor is drawn as a table: its last dim across, all other dims together down.  A table larger than a picture is
divided into blocks of equal numbers of rows and columns.
"""

from dataclasses import dataclass
from enum import StrEnum

MOST_DOWN, MOST_ACROSS = 24, 48
"""The largest number of blocks in a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Some cells of a tensor, by block."""

    shape: tuple[int, ...]
    """The shape of the tensor."""
    marks: tuple[tuple[int, int, float], ...]
    """Blocks with such cells: index down, index across, amount."""

    @property
    def table(self) -> tuple[int, int]:
        """Rows and columns of the tensor's table."""
        return table_of(self.shape)

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of one block."""
        return block_of(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementSpan:
    """A range of elements in a tensor's memory, counted from the tensor's first element."""

    shape: tuple[int, ...]
    extent: int
    """The number of elements from the tensor's first to its last, including gaps between rows."""
    storage: tuple[int, int]
    """The first element of the storage, negative if the view begins later, and one past its last."""
    touched: tuple[int, int]
    """The lowest and the highest element that was accessed."""


class Amount(StrEnum):
    """The meaning of a mark's amount."""

    SHARE = "share"
    """A share of the block's cells, above 0 up to 1."""
    TOLERANCES = "tolerances"
    """The largest error in the block, in tolerances; infinite for NaN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shading:
    """The cells of a tensor at which a promise was broken."""

    tensor: str
    caption: str
    """The event at these cells: `stored by more than one program`."""
    amount: Amount
    spread: Spread
    worst: tuple[int, ...]
    """The index that the message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Accesses outside a tensor."""

    tensor: str
    caption: str
    elements: ElementSpan


Picture = Shading | Span


def table_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return rows and columns of a tensor's table; a scalar has one cell."""
    rows = 1
    for size in shape[:-1]:
        rows *= size
    return rows, shape[-1] if shape else 1


def block_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return rows and columns of one block of its picture; a small tensor has blocks of one cell."""
    rows, columns = table_of(shape)
    return max(1, -(-rows // MOST_DOWN)), max(1, -(-columns // MOST_ACROSS))
