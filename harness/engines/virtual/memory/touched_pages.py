"""Which parts of a large array a process has touched: Linux gives no memory to pages that were never written."""

import mmap
import os
from pathlib import Path

import numpy as np

from harness.engines.virtual.numbers.elements import Array

_PAGE_MAP = Path("/proc/self/pagemap")
_ENTRY_BYTES = 8
_IS_SOMEWHERE = 62
"""The lowest of the two bits of an entry that say that a page is in memory or in swap space."""


def touched_spans(cells: Array, cells_at_once: int) -> Array:
    """Return for each span of so many cells false if nobody has touched it since it was allocated as zeros.

    A span that shares a page with something else counts as touched, and so does all if Linux does not say.
    """
    spans = -(-len(cells) // cells_at_once)
    first_page = cells.ctypes.data // mmap.PAGESIZE
    pages = (cells.ctypes.data + cells.nbytes - 1) // mmap.PAGESIZE + 1 - first_page
    entries = _entries(first_page, pages)
    if len(entries) < pages:
        return np.ones(spans, np.bool_)
    touched = np.r_[0, np.cumsum(entries >> _IS_SOMEWHERE != 0)]
    begins = np.arange(spans) * cells_at_once
    ends = np.minimum(begins + cells_at_once, len(cells))
    first, last = ((cells.ctypes.data + at * cells.itemsize) // mmap.PAGESIZE - first_page for at in (begins, ends - 1))
    return touched[last + 1] > touched[first]


def _entries(first_page: int, pages: int) -> Array:
    try:
        with _PAGE_MAP.open("rb", buffering=0) as file:
            content = os.pread(file.fileno(), pages * _ENTRY_BYTES, first_page * _ENTRY_BYTES)
    except OSError:
        content = b""
    return np.frombuffer(content[: len(content) // _ENTRY_BYTES * _ENTRY_BYTES], np.uint64)
