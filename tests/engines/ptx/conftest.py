"""Fixtures of the tests of the PTX machine."""

from collections.abc import Generator

import pytest

from harness.engines.ptx.wave_runner import INTERPRETED
from tests.engines.ptx.ptx_programs import NATIVE, executed_by


@pytest.fixture(params=[INTERPRETED, NATIVE], ids=["interpreter", "native"])
def _both_executors(request: pytest.FixtureRequest) -> Generator[None]:
    with executed_by(request.param):
        yield
