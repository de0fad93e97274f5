"""Each command asks for a plan in the same words, with the same settings of the project."""

import argparse
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from harness.cli import fuzz, matrix, parse
from harness.cli.command import Parser
from harness.cli.common_options import minutes, plan_of, seconds
from harness.model.plan import Plan
from harness.search import USUAL_DEVICES
from studies.mutation import __main__ as mutation

SETTINGS = '[tool.kernel-harness]\ndevice = "h200,rtx-5090"\nwith = ["mine==1"]\n'


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text("from harness.suite import op\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planned(module: ModuleType, *words: str) -> Plan:
    parser = Parser(prog="harness")
    module.add_options(parser)
    return plan_of(parser.parse_args(["mine.py", *words]))


@pytest.mark.parametrize("command", [fuzz, matrix, mutation])
def test_settings_of_the_project_hold_for_every_command(project: Path, command: ModuleType) -> None:
    (project / "pyproject.toml").write_text(SETTINGS)
    plan = planned(command)
    assert (plan.suites, plan.device, plan.libraries) == (("mine.py",), "h200,rtx-5090", ("mine==1",))


@pytest.mark.parametrize("command", [fuzz, matrix, mutation])
def test_options_replace_the_settings(project: Path, command: ModuleType) -> None:
    (project / "pyproject.toml").write_text(SETTINGS)
    plan = planned(command, "--device", "b200,a100", "--device", "l4", "--with", "mine==2", "--seed", "7")
    assert (plan.device, plan.libraries, plan.seed) == ("b200,a100,l4", ("mine==2",), 7)


def test_hardware_gpus_emulate_their_own_model_unless_an_option_names_another(project: Path) -> None:
    (project / "pyproject.toml").write_text(SETTINGS)
    assert planned(fuzz, "--engine", "cuda").device is None
    assert planned(fuzz, "--engine", "cuda", "--device", "h200").device == "h200"


def test_without_settings_the_usual_devices_are_emulated() -> None:
    assert planned(fuzz).device == USUAL_DEVICES


@pytest.mark.parametrize(("text", "value"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200)])
def test_a_plain_duration_is_in_the_unit_of_its_option(text: str, value: float) -> None:
    assert seconds(text) == value
    assert minutes(text) == (90 if text == "90" else value / 60)


@pytest.mark.parametrize("parse_duration", [seconds, minutes])
@pytest.mark.parametrize("text", ["", "m", "0", "-1s", "inf", "nan", "5 minutes"])
def test_what_is_no_duration_is_refused(parse_duration: Callable[[str], float], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_duration(text)


def test_minutes_may_be_given_in_seconds() -> None:
    given = parse(["fuzz", "mine.py", "--minutes", "90s", "--time-limit", "2m"])
    assert (plan_of(given).seconds, plan_of(given).time_limit_s) == (90, 120)
