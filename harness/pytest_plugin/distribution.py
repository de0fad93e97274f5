"""Which worker of pytest-xdist gets which tests on real GPUs: each a part of them, one test after the other.

So a worker loads libraries for few devices, and knows what comes next.  Imported where pytest-xdist is there.
"""

import pytest
from xdist.scheduler import LoadScopeScheduling

from harness.pytest_plugin.gpu_workers import part_of


class InParts(LoadScopeScheduling):
    """As many parts as workers."""

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
