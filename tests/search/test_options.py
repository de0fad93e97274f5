"""The options of a search, and the command-line options that select its engine."""

import pytest

from harness.engines.cuda.sanitizers.sanitizer_command import Sanitizing
from harness.model.compute_sanitizer_report import Tool
from harness.model.engine_traits import COMPARISON, CUDA, VIRTUAL, EngineTraits
from harness.search.campaign_plan import CaseBudget
from harness.search.engine_choice import custom_engine
from harness.search.options import Options

MEMCHECK = Sanitizing(tool=Tool.MEMCHECK, command=("compute-sanitizer",), version="2025.3.1")


@pytest.mark.parametrize(
    ("engine", "sanitizer", "options"),
    [
        (VIRTUAL, None, ()),
        (CUDA, None, ("--engine", "cuda")),
        (CUDA, MEMCHECK, ("--engine", "cuda", "--sanitizer", "memcheck")),
        (COMPARISON, None, ("--engine", "cuda,virtual")),
        (custom_engine("mine:Engine"), None, ("--engine", "mine:Engine")),
    ],
)
def test_engine_options_are_those_of_the_command_line(
    engine: EngineTraits, sanitizer: Sanitizing | None, options: tuple[str, ...]
) -> None:
    asked = Options(
        suites=(), ops=(), devices=(), budget=CaseBudget(cases=1), seed=0, engine=engine, sanitizer=sanitizer
    )
    assert asked.engine_options == options
