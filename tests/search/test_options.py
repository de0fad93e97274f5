"""What a search was asked for, as a command says it."""

import pytest

from harness.cuda.sanitizers.sanitizer_command import Sanitizing
from harness.model.compute_sanitizer_report import Tool
from harness.search.options import BOTH, CUDA, VIRTUAL, Options
from harness.search.plan import CaseBudget

MEMCHECK = Sanitizing(tool=Tool.MEMCHECK, command=("compute-sanitizer",), version="2025.3.1")


@pytest.mark.parametrize(
    ("engine", "sanitizing", "where"),
    [
        (VIRTUAL, None, ()),
        (CUDA, None, ("--engine", "cuda")),
        (CUDA, MEMCHECK, ("--engine", "cuda", "--sanitizer", "memcheck")),
        (BOTH, None, ("--engine", "cuda,virtual")),
        ("mine:Engine", None, ("--engine", "mine:Engine")),
    ],
)
def test_where_cases_ran_is_told_in_the_words_of_the_command_line(
    engine: str, sanitizing: Sanitizing | None, where: tuple[str, ...]
) -> None:
    asked = Options(
        suites=(), ops=(), devices=(), budget=CaseBudget(cases=1), seed=0, engine=engine, sanitizing=sanitizing
    )
    assert asked.where == where
