"""The options of a search, and the command-line options that select its engine."""

import pytest

from harness.engines.cuda.sanitizers.sanitizer_command import Sanitizing
from harness.model.compute_sanitizer_report import Tool
from harness.search.engine_choice import CustomEngine, EngineChoice, EngineName
from harness.search.options import Options
from harness.search.plan import CaseBudget

MEMCHECK = Sanitizing(tool=Tool.MEMCHECK, command=("compute-sanitizer",), version="2025.3.1")


@pytest.mark.parametrize(
    ("engine", "sanitizer", "options"),
    [
        (EngineName.VIRTUAL, None, ()),
        (EngineName.CUDA, None, ("--engine", "cuda")),
        (EngineName.CUDA, MEMCHECK, ("--engine", "cuda", "--sanitizer", "memcheck")),
        (EngineName.BOTH, None, ("--engine", "cuda,virtual")),
        (CustomEngine("mine:Engine"), None, ("--engine", "mine:Engine")),
    ],
)
def test_engine_options_are_those_of_the_command_line(
    engine: EngineChoice, sanitizer: Sanitizing | None, options: tuple[str, ...]
) -> None:
    asked = Options(
        suites=(), ops=(), devices=(), budget=CaseBudget(cases=1), seed=0, engine=engine, sanitizer=sanitizer
    )
    assert asked.engine_options == options
