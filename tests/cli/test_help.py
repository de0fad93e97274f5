"""The help: it fits a screen, speaks of the tool, and has examples that parse."""

import argparse
import os
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from harness.cli import COMMANDS, module_of, parse
from harness.cli.command import Parser
from harness.cli.common_options import joined_values
from harness.project_settings import JoinedByCommas
from tests.cli.command_line import Project

SCREEN_LINES, SCREEN_COLUMNS = 48, 80


def help_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    monkeypatch.setenv("COLUMNS", str(SCREEN_COLUMNS))
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 0
    return capsys.readouterr().out


def examples(text: str) -> list[str]:
    """Return the commands of the examples, without their comments."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("  harness ")]
    return [line.partition("  ")[0] for line in lines]


@pytest.mark.parametrize("words", [("--help",), *((name, "--help") for name in COMMANDS)], ids=" ".join)
def test_the_help_fits_a_screen_and_has_examples(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    text = help_of(monkeypatch, capsys, *words)
    lines = text.splitlines()
    assert len(lines) <= SCREEN_LINES
    assert [line for line in lines if len(line) > SCREEN_COLUMNS] == []
    assert "show this help" not in text
    assert examples(text)
    for example in examples(text):
        parse(shlex.split(example)[1:])


def test_rarely_needed_options_are_in_the_whole_help_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short, whole = (help_of(monkeypatch, capsys, "fuzz", option) for option in ("--help", "--help-all"))
    assert ("--isolation" in short, "--isolation" in whole) == (False, True)
    assert "harness fuzz --help-all lists " in short
    assert "--help-all" not in whole
    assert "exit status: " in short
    assert "exit status: " in whole


def list_options() -> list[tuple[str, argparse.Action]]:
    """Return each option whose value is a list, with its command."""
    parsers = {name: Parser(prog=name) for name in COMMANDS}
    for name, parser in parsers.items():
        import_module(module_of(name)).add_options(parser)
    return [
        (name, action)
        for name, parser in parsers.items()
        for action in parser.actions
        if action.option_strings and ("…" in str(action.metavar) or action.nargs in {"+", "*"})
    ]


def test_an_option_that_takes_a_list_adds_to_it_when_repeated() -> None:
    joining = (JoinedByCommas, argparse._AppendAction, argparse._ExtendAction)
    options = list_options()
    assert {("check", "--sizes"), ("check", "--allow"), ("fuzz", "--env"), ("matrix", "--fail-on")} <= {
        (name, action.option_strings[0]) for name, action in options
    }
    assert [(name, action.option_strings) for name, action in options if not isinstance(action, joining)] == []


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("check", "a", "b", "--allow", "conv", "--allow", "bmm"), {"allow": "conv,bmm"}),
        (("matrix", "a", "--fail-on", "shared", "--fail-on", "registers"), {"fail_on": "shared,registers"}),
    ],
)
def test_a_repeated_list_keeps_what_came_before(words: tuple[str, ...], values: dict[str, str]) -> None:
    assert vars(parse(words)).items() >= values.items()


def test_values_of_one_name_are_joined() -> None:
    assert joined_values([("A", (1, 2)), ("B", (3,)), ("A", (2, 4))]) == {"A": (1, 2, 4), "B": (3,)}


def test_harness_alone_prints_its_help(tmp_path: Path) -> None:
    alone, asked = (Project(tmp_path).harness(*words) for words in ((), ("--help",)))
    assert (alone.status, alone.out, alone.err) == (2, asked.out, "")
    assert alone.out.startswith("usage: harness [options] COMMAND")
    assert list(tmp_path.iterdir()) == []


def test_a_list_whose_reader_has_gone_ends_quietly() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "harness.cli", "devices"], stdout=theirs, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(theirs)
    assert (done.returncode, done.stderr) == (141, b"")
