"""How pytest-xdist's workers share the tests on hardware GPUs: each gets one part of them, in order.

So a worker loads libraries for few devices, and knows its next tests.  This module needs pytest-xdist.
"""

import pytest
from xdist.scheduler import LoadScopeScheduling

from harness.pytest_plugin.gpu_workers import part_of


class InParts(LoadScopeScheduling):
    """A scheduler that makes as many parts as there are workers."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(config)
        self._parts: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        if not self._parts:
            tests = self.collection or []
            self._parts = {
                test: f"part {part_of(index, len(tests), self.numnodes)}" for index, test in enumerate(tests)
            }
        return self._parts[nodeid]
