"""Shared memory that a kernel in Gluon allocates: a block for each program, which stores change in place."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from harness.engines.virtual.numbers.elements import Array


@dataclass(frozen=True, slots=True)
class SharedBlock:
    """A block of shared memory, or a part of one.

    Layouts and swizzling decide where elements are, not what they are, so they are ignored.
    """

    values: Array
    """The elements by program, of the type in which they are computed."""

    @classmethod
    def fresh(cls, programs: int, shape: tuple[int, ...], dtype: type[Any]) -> Self:
        """Return memory that nothing has stored to: NaN, or ones."""
        filling = np.nan if np.issubdtype(dtype, np.floating) else 1
        return cls(np.full((programs, *shape), filling, dtype))
