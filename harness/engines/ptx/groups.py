"""Groups of asynchronous work that threads commit together, and wait for by the number of groups that may be left."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from harness.engines.ptx.threads import Array


class GroupWork(Protocol):
    """Work of some threads."""

    def land(self, landing: Array) -> None:
        """Take effect for the threads of a mask."""
        ...


@dataclass(slots=True)
class _Group:
    threads: Array
    works: list[GroupWork]
    landed: Array


@dataclass(slots=True)
class WorkGroups:
    """The groups of one kind of work: copies, products, or bulk stores."""

    _open: list[GroupWork] = field(default_factory=list[GroupWork])
    _groups: list[_Group] = field(default_factory=list[_Group])

    def issue(self, work: GroupWork) -> None:
        self._open.append(work)

    def commit(self, threads: Array) -> None:
        """The threads of a mask put their work since the last commit into a group."""
        self._groups.append(_Group(threads, self._open, np.zeros(len(threads), np.bool_)))
        self._open = []

    def wait(self, threads: Array, pending: int) -> None:
        """Land all groups but the last `pending` ones of each thread of a mask."""
        count = np.zeros(len(threads), np.int32)
        due: list[tuple[_Group, Array]] = []
        for group in reversed(self._groups):
            member = group.threads & threads
            landing = member & (count >= pending) & ~group.landed
            count += member
            if landing.any():
                due.append((group, landing))
        for group, landing in reversed(due):
            for work in group.works:
                work.land(landing)
            group.landed |= landing
        self._groups = [group for group in self._groups if not (group.landed | ~group.threads).all()]

    @property
    def works(self) -> list[GroupWork]:
        """All work that may not have landed, in the order of its issue."""
        return [*(work for group in self._groups for work in group.works), *self._open]
