"""Shared zygotes that outlive a test: loading torch, Triton and an engine takes 3 s, in each pool of each test.

A zygote keeps its environment and search path for life.  So a pool gets a kept one only if both are those in which the
tests began, apart from variables that no zygote reads.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from harness.workers.fork_servers.shared_zygotes import SharedZygote, SharedZygotes

Of = Callable[[SharedZygotes, str], SharedZygote]
UNREAD = (
    *("PYTEST_CURRENT_TEST", "COLUMNS", "PYTHONPATH", "HARNESS_CACHE"),
    *("PIP_NO_INDEX", "PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_FIND_LINKS"),
)
"""`PYTHONPATH` is read at Python's start alone, and a zygote gets the search path of its parent.

In `HARNESS_CACHE` the processes of a zygote keep what Inductor has compiled, which decides no result.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a zygote takes over from the process that starts it."""

    environment: dict[str, str]
    path: list[str]

    @classmethod
    def now(cls) -> "Setting":
        return cls(
            environment={name: value for name, value in os.environ.items() if name not in UNREAD}, path=[*sys.path]
        )


def keeping(kept: SharedZygotes, own: Of) -> Of:
    """Return `SharedZygotes.of` that prefers a kept zygote.  Libraries under test are in none of them."""
    setting = Setting.now()

    def of(self: SharedZygotes, engine: str) -> SharedZygote:
        return own(kept if Setting.now() == setting else self, engine)

    return of
