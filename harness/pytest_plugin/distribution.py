"""Which worker of pytest-xdist gets which tests on real GPUs: those of one suite and device go to one, in their order.

So each suite is loaded once for each device, and a worker knows what comes next.  Imported where pytest-xdist is there.
"""

from pathlib import PurePath

import pytest
from xdist.scheduler import LoadScopeScheduling

from harness.pytest_plugin import SUITES


class BySuiteAndDevice(LoadScopeScheduling):
    """Tests of suites by file and device, other tests by file."""

    def __init__(self, config: pytest.Config) -> None:
        config.option.loadscopereorder = False  # regressions come first
        super().__init__(config)

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        return file + test[test.find("[") :] if SUITES in PurePath(file).parts and "[" in test else file
