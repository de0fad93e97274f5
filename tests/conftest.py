"""Which tests depend on Triton, and so run with both releases in `make test`."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
DEPENDENT_ROOMS = tuple(HERE / room for room in ("compiling", "engines/triton", "engines/ttir", "engines/virtual"))
"""Rooms whose tests run with both Tritons.  Elsewhere a test or a module opts in with the marker `both`."""


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.path.is_relative_to(room) for room in DEPENDENT_ROOMS):
            item.add_marker(pytest.mark.both)
