"""Where in a tensor something lies, coarsely enough to draw: facts of a run, and with words, part of a failure.

A tensor is seen as a table: its last dim across, all others together down.  A table larger than a picture is cut into
blocks of equal numbers of rows and columns.
"""

from dataclasses import dataclass
from enum import StrEnum

MOST_DOWN, MOST_ACROSS = 24, 48
"""The blocks of a picture, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Some cells of a tensor, block by block."""

    shape: tuple[int, ...]
    """Of the tensor."""
    marks: tuple[tuple[int, int, float], ...]
    """Blocks with such cells: down, across, and how much; in that order."""

    @property
    def table(self) -> tuple[int, int]:
        """Rows and columns of the tensor as a table."""
        return table_of(self.shape)

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of one block."""
        return block_of(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementSpan:
    """Some elements on the line of a tensor's memory, counted from its first in units of its element type."""

    shape: tuple[int, ...]
    extent: int
    """Elements between the tensor's ends, gaps between its rows included."""
    storage: tuple[int, int]
    """The first element of the storage, negative where the view begins later, and one more than its last."""
    touched: tuple[int, int]
    """The lowest and the highest element that was touched."""


class Amount(StrEnum):
    """What the number of a mark counts."""

    SHARE = "share"
    """Of the block's cells, above 0 up to 1."""
    TOLERANCES = "tolerances"
    """The largest error in the block, in tolerances; infinite for NaN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shading:
    """The cells of a tensor at which a promise was broken."""

    tensor: str
    says: str
    """What was seen there: `stored by more than one program`."""
    amount: Amount
    spread: Spread
    worst: tuple[int, ...]
    """The index that the message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Accesses beside a tensor."""

    tensor: str
    says: str
    reach: ElementSpan


Picture = Shading | Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """Several of them, as a document holds them."""

    pictures: tuple[Picture, ...] = ()


def table_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a tensor as a table; a scalar is a table of one cell."""
    rows = 1
    for size in shape[:-1]:
        rows *= size
    return rows, shape[-1] if shape else 1


def block_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of one block of its picture; single cells where it is small."""
    rows, columns = table_of(shape)
    return max(1, -(-rows // MOST_DOWN)), max(1, -(-columns // MOST_ACROSS))
