"""A config that fits one call and is too large for another is found, though the compiler reports late."""

from pathlib import Path

import pytest

from harness.suite import load_suite
from tests.planted.test_planted import search, session_of

ROOT = Path(__file__).parents[2]
SUITE = Path(__file__).with_name("shared_tile_suite.py").relative_to(ROOT)
"""Its name decides what is drawn, so it must not depend on the folder of the checkout."""


@pytest.mark.nightly
@pytest.mark.slow
def test_a_config_of_another_call_may_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    op, repaired = load_suite(str(SUITE))
    with session_of([SUITE], time_limit_s=60.0) as session:
        found = [sighting.fail for sighting in search(session, op, 100).in_order()]
        assert [(fail.oracle, fail.signature.place) for fail in found] == [("autotuner-key", "lacks D, DEPTH")]
        assert "bytes of shared memory, where rtx-pro-6000 has 101376" in found[0].message
        assert list(search(session, repaired, 100).in_order()) == []
