"""How many searches of pytest go on at once on one GPU."""

import pytest

from harness.pytest_plugin.sessions import others
from harness.search.options import BOTH, CUDA, VIRTUAL, Options
from harness.search.plan import CaseBudget

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("engine", "compilers", "beside"),
    [
        (CUDA, 14, 6),
        (CUDA, 62, 7),
        (CUDA, 4, 1),
        (CUDA, 3, 0),
        (CUDA, 0, 0),
        (CUDA, None, 0),
        (VIRTUAL, 14, 0),
        (BOTH, 14, 0),
    ],
)
def test_each_search_at_once_has_two_processes_that_compile_ahead(
    engine: str, compilers: int | None, beside: int
) -> None:
    options = Options(
        suites=(), ops=(), devices=(), budget=CaseBudget(cases=1), seed=0, engine=engine, compilers=compilers
    )
    assert others(options) == beside
