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
class _Open:
    """Work that some threads have issued and not committed."""

    work: GroupWork
    threads: Array


@dataclass(slots=True)
class _Group:
    threads: Array
    works: list[_Open]
    landed: Array


@dataclass(slots=True)
class WorkGroups:
    """The groups of one kind of work: copies, products, or bulk stores."""

    _open: list[_Open] = field(default_factory=list[_Open])
    _groups: list[_Group] = field(default_factory=list[_Group])

    def issue(self, threads: Array, work: GroupWork) -> None:
        """The threads of a mask issue work."""
        self._open.append(_Open(work, threads))

    def commit(self, threads: Array) -> None:
        """The threads of a mask put their work since the last commit into a group."""
        works = [_Open(item.work, item.threads & threads) for item in self._open]
        works = [item for item in works if item.threads.any()]
        self._groups.append(_Group(threads, works, np.zeros(len(threads), np.bool_)))
        still = [_Open(item.work, item.threads & ~threads) for item in self._open]
        self._open = [item for item in still if item.threads.any()]

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
            for item in group.works:
                if (own := landing & item.threads).any():
                    item.work.land(own)
            group.landed |= landing
        self._groups = [group for group in self._groups if not (group.landed | ~group.threads).all()]

    @property
    def works(self) -> list[GroupWork]:
        """All work that may not have landed, in the order of its issue."""
        committed = (item for group in self._groups for item in group.works)
        return [item.work for item in (*committed, *self._open)]
