"""Nouns follow their number, and lines break between words on a terminal."""

import os
import pty
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from harness.wording import alike, counted, fitted

LONG = "harness: " + " ".join(["one/long/path/with-hyphens.py:12"] * 6)


@pytest.mark.parametrize(
    ("numbers", "texts"),
    [
        ((0.5, 0.25), ("0.5", "0.25")),
        ((1.00000011, 1.0), ("1.0000001", "1")),
        ((0.333333334, 0.333333333), ("0.333333334", "0.333333333")),
        ((2.5, 2.5), ("2.5", "2.5")),
        ((float("nan"), 1.0), ("nan", "1")),
    ],
)
def test_two_numbers_have_as_many_digits_as_tell_them_apart(
    numbers: tuple[float, float], texts: tuple[str, str]
) -> None:
    assert alike(*numbers) == texts


@pytest.mark.parametrize(("number", "text"), [(0, "0 cases"), (1, "1 case"), (2, "2 cases"), (1234, "1,234 cases")])
def test_a_noun_follows_its_number(number: int, text: str) -> None:
    assert counted(number, "case") == text


def test_a_file_keeps_long_lines() -> None:
    assert fitted(LONG, StringIO()) == LONG


def test_a_terminal_gets_lines_that_break_between_words(tmp_path: Path) -> None:
    suite = tmp_path / "a suite with a rather long name, so that the message about it needs more than eighty columns.py"
    suite.write_text("from harness import suite\n1 / 0\n", encoding="utf-8")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "harness.cli", "fuzz", str(suite)]
    environment = {**os.environ, "COLUMNS": "80", "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    done = subprocess.run(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, check=False, timeout=60)
    os.close(theirs)
    lines = os.read(ours, 65536).decode().splitlines()
    os.close(ours)
    assert done.returncode == 2
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80
    assert " ".join(lines).endswith("fails on import: ZeroDivisionError: division by zero")
