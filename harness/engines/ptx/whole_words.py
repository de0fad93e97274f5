"""The bytes of a storage, completed to a whole word.

The code of an atomic operation on 16 bits exchanges the word of 32 bits around them, as before sm_90 for bfloat16.  On
a GPU such a word belongs to one allocation, since allocations begin and end at multiples of 512 bytes.
"""

from dataclasses import dataclass

import numpy as np

from harness.engines.ptx.threads import Array

WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class WholeWords:
    """The bytes that a launch works on, and those that they are written back to."""

    content: Array
    storage: Array

    @classmethod
    def around(cls, storage: Array) -> "WholeWords":
        """Return the bytes themselves if they are whole words, and a longer copy otherwise."""
        missing = -len(storage) % WORD_BYTES
        return cls(np.pad(storage, (0, missing)) if missing else storage, storage)

    @property
    def filler_bytes(self) -> int:
        """The bytes behind the storage's own."""
        return len(self.content) - len(self.storage)

    def write_back(self) -> None:
        """Write a copy to the storage."""
        if self.filler_bytes:
            self.storage[:] = self.content[: len(self.storage)]
