"""`--env` on the command line."""

import argparse
from pathlib import Path

import pytest

from harness.cli.common_options import environment_variable
from tests.cli.command_line import ON, Project
from tests.cli.fake_engine import suite_of


def test_a_variable_is_given_with_the_values_to_try() -> None:
    assert environment_variable("FLA_USE_TMA=1") == ("FLA_USE_TMA", ("1",))
    assert environment_variable("DEPTH=2, 3") == ("DEPTH", ("2", "3"))
    assert environment_variable("DEPTH=") == ("DEPTH", ())


@pytest.mark.parametrize("text", ["FLA_USE_TMA", "=1", "1A=2"])
def test_a_text_without_a_variable_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="names no variable: write NAME=VALUE,…"):
        environment_variable(text)


def test_a_variable_of_the_shell_that_cases_set_themselves_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPTH", "7")
    project = Project(tmp_path)
    project.write("suites/norm.py", suite_of("faultless"))
    done = project.harness("fuzz", "suites/norm.py", "--cases", "20", "--env", "DEPTH=2", *ON)
    assert "the value of DEPTH here does not count" in done.err
    assert done.status == 0
