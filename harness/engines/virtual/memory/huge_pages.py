"""Large memory in huge pages: the first touches of small pages take longer than most launches, and more on many cores.

Linux takes them where it is set to `madvise` or `always`.  Elsewhere nothing changes.
"""

import ctypes
import mmap

import numpy as np

from harness.engines.virtual.numbers.elements import Array

LARGE_BYTES = 1 << 22
"""Two huge pages."""
_LIBC = ctypes.CDLL(None)


def zeros(count: int, dtype: type[np.generic]) -> Array:
    """Return that many zeros.  Those of a large array have no memory before they are touched."""
    size = count * np.dtype(dtype).itemsize
    if size < LARGE_BYTES:
        return np.zeros(count, dtype)
    array: Array = np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), dtype)
    prefer_huge_pages(array.ctypes.data, size)
    return array


def prefer_huge_pages(address: int, size_bytes: int) -> None:
    """Ask for huge pages where memory has not been touched; small memory is left as it is."""
    if size_bytes >= LARGE_BYTES:
        first = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
        whole = (address + size_bytes - first) // mmap.PAGESIZE * mmap.PAGESIZE
        _LIBC.madvise(ctypes.c_void_p(first), ctypes.c_size_t(whole), ctypes.c_int(mmap.MADV_HUGEPAGE))
