"""The argument of native code: one table of 64-bit words, whose layout the code and its caller share.

    words 0 to 2  The grid's extents.
    word 3        The arena's address.
    word 4        The address of the counters of undefined lanes, one for each load.
    word 5        The value of undefined lanes, as an integer.
    word 6        The address of the records of uninitialised reads.
    word 7        The address of the flags of entered blocks, a byte for each of `Module.blocks`.
    then          The parameters: six words for a pointer, one for a number.

The records are a count, then columns of elements, programs and load sites.  Each column has spare space at its end,
since code writes whole vectors.  A number is an i64, or the bits of the float64 that equals it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from harness.engines.ttir.ir import Function

HEADER_WORDS = 8
MOST_RECORDS = 1 << 20
"""A launch with more records bails out to the machine."""
_COLUMN_WORDS = MOST_RECORDS + 64
RECORD_COLUMNS = (1, 1 + _COLUMN_WORDS, 1 + 2 * _COLUMN_WORDS)
RECORD_WORDS = 1 + 3 * _COLUMN_WORDS


class Word(IntEnum):
    """A pointer parameter's words."""

    BASE = 0
    """The address of the first element; 0 for a null pointer."""
    EXTENT = 1
    """The number of elements; 0 for a null pointer."""
    COVERED = 2
    """The address of one byte per element, 0 in gaps of a strided tensor; 0 without gaps."""
    SHADOW = 3
    """The address of the shadow cell of the first element; 0 if the memory is not tracked."""
    PATTERN = 4
    """The poison pattern of fresh memory."""
    FRESH = 5
    """1 if the memory is fresh, else 0."""


@dataclass(frozen=True, slots=True)
class ParameterSlot:
    """A parameter's SSA slot and its place in the table."""

    slot: int
    first_word: int
    argument: int | None
    """The parameter's number among the pointers; None for a number."""


def parameter_slots(kernel: Function) -> Iterator[ParameterSlot]:
    """The kernel's parameters, in order."""
    word, argument = HEADER_WORDS, 0
    for parameter in kernel.parameters:
        if parameter.type.is_pointer:
            yield ParameterSlot(parameter.slot, word, argument)
            word += len(Word)
            argument += 1
        else:
            yield ParameterSlot(parameter.slot, word, None)
            word += 1
