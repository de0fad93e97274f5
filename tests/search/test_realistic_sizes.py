"""Realistic sizes: some cases of a search on a hardware GPU have them, and no other draw changes."""

from dataclasses import replace
from math import prod

import pytest

from harness import catalogue
from harness.model.case import Case, Scale
from harness.search.launch_feedback import LaunchFeedback
from harness.search.realistic_sizes import MOST_ELEMENTS, ONE_IN
from harness.search.strategies import Batch
from harness.suite import load_suite, tokens, width

NORM = next(op for op in load_suite("suites/fla/norm.py") if op.name == "layer_norm")
BATCH = Batch(op=NORM, device=catalogue.find("h200"), feedback=LaunchFeedback(), seed=1, size=400)


def drawn(*, realistic: bool) -> list[Case]:
    batches = [replace(BATCH, seed=seed, has_realistic_sizes=realistic) for seed in (1, 2, 3)]
    return [case for batch in batches for case in batch.draw()]


@pytest.fixture(scope="module")
def usual_cases() -> list[Case]:
    return drawn(realistic=False)


def test_some_cases_have_the_sizes_of_models_and_the_others_stay(usual_cases: list[Case]) -> None:
    pairs = zip(usual_cases, drawn(realistic=True), strict=True)
    changed = [(usual, case) for usual, case in pairs if usual != case]
    assert len(usual_cases) / ONE_IN / 3 < len(changed) < 2 * len(usual_cases) / ONE_IN
    for usual, case in changed:
        assert (usual.scale, case.scale) == (Scale.USUAL, Scale.LONG)
        assert (usual.configs, usual.layouts, usual.seed) == (case.configs, case.layouts, case.seed)
        assert NORM.allows(case)
    assert max(case.dims["T"] for _, case in changed) > 16_384
    assert max(case.dims["D"] for _, case in changed) > 4_096
    assert max(prod(case.dims.values()) for _, case in changed) > MOST_ELEMENTS / 8


def test_realistic_sizes_do_not_make_a_dim_of_the_virtual_gpu_larger(usual_cases: list[Case]) -> None:
    assert all(case.dims["D"] <= 1024 for case in usual_cases)


def test_inputs_of_realistic_sizes_have_a_bound() -> None:
    made = replace(NORM, dims={"T": tokens(realistic=1 << 20), "D": width(realistic=1 << 14)})
    cases = replace(BATCH, op=made, has_realistic_sizes=True).draw()
    assert max(prod(case.dims.values()) for case in cases if case.dims["D"] > 1024) <= MOST_ELEMENTS
