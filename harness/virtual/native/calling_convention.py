"""What native code is called with: one array of 64-bit words, laid out here for the code and for its caller.

    word 0 to 2   the grid's extents
    word 3        the arena's address
    word 4        the address of the counters of undefined lanes, one for each load that may leave some
    word 5        what undefined lanes hold, as an integer
    word 6        the address of the records of reads that came too early
    then          each parameter: a pointer's six words, or a number's one

The records are a count, then columns of elements, programs and sites, with room at the end for a last vector.

A number is given as an i64, or as the bits of the float64 that equals it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from harness.virtual.ttir.ir import Function

HEADER = 7
RECORDS = 1 << 20
"""Where so many are kept, the launch is left to the machine."""
_COLUMN = RECORDS + 64
COLUMNS = (1, 1 + _COLUMN, 1 + 2 * _COLUMN)
RECORD_WORDS = 1 + 3 * _COLUMN


class Word(IntEnum):
    """A pointer parameter's words."""

    BASE = 0
    """The address of its first element; 0 for a null pointer."""
    EXTENT = 1
    """How many elements it covers; 0 for a null pointer."""
    COVERED = 2
    """The address of a byte for each element, 0 in gaps; 0 where there are none."""
    SHADOW = 3
    """The address of its first element's cell."""
    PATTERN = 4
    """The bits that fresh memory holds."""
    FRESH = 5
    """1 where the memory is fresh, else 0."""


@dataclass(frozen=True, slots=True)
class ParameterSlot:
    """Where a parameter stands."""

    slot: int
    first_word: int
    argument: int | None
    """Its number among the pointers; None for a number."""


def entries(kernel: Function) -> Iterator[ParameterSlot]:
    """All parameters, in order."""
    word, argument = HEADER, 0
    for parameter in kernel.parameters:
        if parameter.type.is_pointer:
            yield ParameterSlot(parameter.slot, word, argument)
            word += len(Word)
            argument += 1
        else:
            yield ParameterSlot(parameter.slot, word, None)
            word += 1


def length(kernel: Function) -> int:
    """Words of a kernel's table."""
    return HEADER + sum(len(Word) if parameter.type.is_pointer else 1 for parameter in kernel.parameters)
