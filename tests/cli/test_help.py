"""The help: it fits a screen, speaks of the tool, and has examples that parse."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import COMMANDS, parse
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
