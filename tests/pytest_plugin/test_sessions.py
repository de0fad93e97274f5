"""The number of searches that pytest runs at the same time on one GPU."""

import pytest

from harness.model.engine_traits import COMPARISON, CUDA, VIRTUAL, EngineTraits
from harness.pytest_plugin.sessions import concurrent_searches
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options


@pytest.mark.parametrize(
    ("engine", "compilers", "cases", "concurrent"),
    [
        (CUDA, 14, 100, 6),
        (CUDA, 62, 100, 7),
        (CUDA, 4, 100, 1),
        (CUDA, 3, 100, 0),
        (CUDA, 0, 2, 0),
        (CUDA, None, 2, 0),
        (VIRTUAL, 14, 2, 0),
        (COMPARISON, 14, 2, 0),
        (CUDA, 14, 2, 27),
        (CUDA, 62, 2, 31),
        (CUDA, 3, 2, 5),
    ],
)
def test_concurrent_searches_have_two_compilers_each_or_few_cases(
    engine: EngineTraits, compilers: int | None, cases: int, concurrent: int
) -> None:
    budget = CaseBudget(cases=cases)
    options = Options(suites=(), ops=(), devices=(), budget=budget, seed=0, engine=engine, compilers=compilers)
    assert concurrent_searches(options) == concurrent
