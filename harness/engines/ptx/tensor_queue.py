"""The products, copies and commits of tensor memory that have been issued: they land in order, as late as they may."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from harness.engines.ptx.threads import Array


class TensorWork(Protocol):
    """A product, a copy or a commit that threads have issued."""

    @property
    def threads(self) -> Array: ...

    def land(self, chosen: Array) -> None:
        """Take effect for those of its threads that a mask chooses."""
        ...


@dataclass(slots=True)
class _Issued:
    number: int
    work: TensorWork
    ctas: Array
    """For each thread of the work the place of its CTA."""
    waits: Array
    """For each thread of the work, whether it has yet to land."""


@dataclass(slots=True)
class TensorQueue:
    """The work of all CTAs of a wave, in the order of its issue."""

    threads: int
    """The threads of a CTA."""
    issued: int = 0
    """How many pieces of work have been issued."""
    _works: list[_Issued] = field(default_factory=list[_Issued])

    def issue(self, work: TensorWork) -> None:
        ctas = work.threads // self.threads
        self._works.append(_Issued(self.issued, work, ctas, np.ones(len(ctas), np.bool_)))
        self.issued += 1

    def land(self, ctas: Array, before: int) -> None:
        """Land the work of some CTAs that was issued when there were fewer than `before`; `ctas` is a mask."""
        for item in self._works:
            if item.number >= before:
                break
            chosen = item.waits & ctas[item.ctas]
            if chosen.any():
                item.work.land(chosen)
                item.waits &= ~chosen
        self._works = [item for item in self._works if item.waits.any()]
