"""The zygote of a command starts before the command's own imports, if the command line shows that it needs one."""

import subprocess
import sys
from pathlib import Path

import pytest

WATCHED = """
import sys
seen = []
def watch(event, details):
    if event == "subprocess.Popen" and "zygote" in str(details[1]):
        seen.append("zygote")
    elif event == "exec" and "cli/fuzz.py" in str(details[0]):
        seen.append("command")
sys.addaudithook(watch)
from harness.cli import main
status = main()
print(*seen)
raise SystemExit(status)
"""


def run(*words: str, folder: Path) -> tuple[list[str], str]:
    child = subprocess.run(
        [sys.executable, "-c", WATCHED, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    return child.stdout.split(), child.stderr


def test_a_zygote_starts_before_the_imports_of_its_command(tmp_path: Path) -> None:
    seen, message = run("fuzz", "no_such_suite.py", folder=tmp_path)
    assert seen == ["zygote", "command"]
    assert "unknown suite" in message


def test_with_a_hardware_gpu_the_zygote_of_compilers_starts_too(tmp_path: Path) -> None:
    seen, _ = run("fuzz", "no_such_suite.py", "--engine", "cuda", folder=tmp_path)
    assert seen == ["zygote", "zygote", "command"]


@pytest.mark.parametrize("words", [("fuzz", "--engine=virtaul", "x.py"), ("fuzz", "x.py", "--survey", "coverage")])
def test_no_zygote_starts_early_where_its_engine_is_unknown(words: tuple[str, ...], tmp_path: Path) -> None:
    seen, _ = run(*words, folder=tmp_path)
    assert seen == ["command"]
