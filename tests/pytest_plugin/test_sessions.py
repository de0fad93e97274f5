"""The number of searches that pytest runs at the same time on one GPU."""

import pytest

from harness.model.engine_traits import COMPARISON, CUDA, VIRTUAL, EngineTraits
from harness.pytest_plugin.sessions import concurrent_searches
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options


@pytest.mark.parametrize(
    ("engine", "compilers", "concurrent"),
    [
        (CUDA, 14, 6),
        (CUDA, 62, 7),
        (CUDA, 4, 1),
        (CUDA, 3, 0),
        (CUDA, 0, 0),
        (CUDA, None, 0),
        (VIRTUAL, 14, 0),
        (COMPARISON, 14, 0),
    ],
)
def test_each_concurrent_search_has_two_compiling_processes(
    engine: EngineTraits, compilers: int | None, concurrent: int
) -> None:
    options = Options(
        suites=(), ops=(), devices=(), budget=CaseBudget(cases=1), seed=0, engine=engine, compilers=compilers
    )
    assert concurrent_searches(options) == concurrent
