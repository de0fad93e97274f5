"""Groups of asynchronous work: who commits what, and what a wait lands."""

from dataclasses import dataclass, field

import numpy as np

from harness.engines.ptx.groups import WorkGroups
from harness.engines.ptx.threads import Array

FIRST = np.array([True, False])
SECOND = ~FIRST


@dataclass
class Work:
    """Remembers the threads for which it landed."""

    landed: list[list[bool]] = field(default_factory=list["list[bool]"])

    def land(self, landing: Array) -> None:
        self.landed.append(landing.tolist())


def test_a_commit_leaves_the_open_work_of_other_threads() -> None:
    groups, work = WorkGroups(), Work()
    groups.issue(FIRST, work)
    groups.commit(SECOND)
    groups.wait(SECOND, 0)
    assert work.landed == []
    groups.commit(FIRST)
    groups.wait(FIRST, 0)
    assert work.landed == [[True, False]]


def test_threads_that_commit_work_apart_wait_for_it_apart() -> None:
    groups, work = WorkGroups(), Work()
    groups.issue(FIRST | SECOND, work)
    groups.commit(FIRST)
    groups.commit(FIRST)
    groups.wait(FIRST, 1)
    assert work.landed == [[True, False]]
    groups.commit(SECOND)
    groups.wait(FIRST | SECOND, 0)
    assert work.landed == [[True, False], [False, True]]
