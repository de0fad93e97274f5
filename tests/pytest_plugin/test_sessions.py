"""The number of searches that pytest runs at the same time on one GPU."""

import pytest

from harness.pytest_plugin.sessions import concurrent_searches
from harness.search.engine_choice import EngineName
from harness.search.options import Options
from harness.search.plan import CaseBudget


@pytest.mark.parametrize(
    ("engine", "compilers", "concurrent"),
    [
        (EngineName.CUDA, 14, 6),
        (EngineName.CUDA, 62, 7),
        (EngineName.CUDA, 4, 1),
        (EngineName.CUDA, 3, 0),
        (EngineName.CUDA, 0, 0),
        (EngineName.CUDA, None, 0),
        (EngineName.VIRTUAL, 14, 0),
        (EngineName.BOTH, 14, 0),
    ],
)
def test_each_concurrent_search_has_two_compiling_processes(
    engine: EngineName, compilers: int | None, concurrent: int
) -> None:
    options = Options(
        suites=(), ops=(), devices=(), budget=CaseBudget(cases=1), seed=0, engine=engine, compilers=compilers
    )
    assert concurrent_searches(options) == concurrent
