"""The threads that issue work of tensor memory, and the CTAs that the work is of."""

from collections.abc import Iterator

import numpy as np

from harness.engines.ptx.threads import Array
from harness.engines.ptx.wave import Read, Wave
from harness.errors import CannotExecute


def issuers(wave: Wave) -> Iterator[Array]:
    """Yield the active threads, one of each CTA at a time: each thread issues work of its own."""
    left = wave.active()
    while len(left):
        _, first = np.unique(wave.cta[left], return_index=True)
        yield left[first]
        left = np.delete(left, first)


def values_at(wave: Wave, read: Read, threads: Array) -> Array:
    """Return an operand of some threads."""
    return np.broadcast_to(read(wave), (wave.size,))[threads].copy()


def members_of(wave: Wave, threads: Array, *, is_pair: bool) -> Array:
    """Return for each thread the CTAs that take part, the one of even rank first.

    Raises:
        CannotExecute: a pair in a cluster of an odd number of CTAs.
    """
    own = wave.cta[threads]
    if not is_pair:
        return own[:, None]
    if wave.shape.cluster % 2:
        raise CannotExecute("a CTA pair without a cluster")
    return (own - own % 2)[:, None] + np.arange(2)
