"""Where compute-sanitizer is looked for, what it is asked to do, and what of its reports a file accepts."""

from pathlib import Path

import pytest

from harness.cuda.sanitizers import sanitizer_command
from harness.cuda.sanitizers.sanitizer_command import Executable, ask, command, environment, find, sanitizing
from harness.cuda.sanitizers.suppressions import Suppression, read_suppressions
from harness.errors import MissingPart, UsageError
from harness.model.compute_sanitizer_report import Tool

HELP = """NVIDIA (R) Compute Sanitizer
Version 2025.3.1.0 (build 36400806) (public-release)
  --target-processes arg (=all)         Select which processes are to be tracked
  --padding arg (=0)                    Size in bytes for padding buffer to add after each allocation.
  --racecheck-report arg (=analysis)    The reporting mode
"""


def executable(folder: Path, text: str = HELP) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "compute-sanitizer"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No tool is on PATH and none in a toolkit, unless the test puts it there."""
    monkeypatch.setenv("PATH", f"{tmp_path}/path:/bin:/usr/bin")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)


def test_the_one_on_path_comes_before_the_toolkits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    of_toolkit = executable(tmp_path / "cuda" / "bin")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert find() == str(of_toolkit)
    on_path = executable(tmp_path / "path")
    assert find() == str(on_path)


def test_one_that_is_nowhere_is_a_missing_part_with_the_command_that_provides_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sanitizer_command, "_places", lambda: iter(()))
    with pytest.raises(MissingPart, match=r"pip install 'nvidia-cuda-sanitizer-api>=13\.4\.92'$"):
        find()


def test_one_that_does_not_run_is_a_missing_part(tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    path.chmod(0o755)
    with pytest.raises(MissingPart, match="does not run"):
        ask(str(path))


def test_a_release_is_asked_for_nothing_that_it_does_not_know(tmp_path: Path) -> None:
    known = ask(str(executable(tmp_path)))
    assert known == Executable(
        path=str(tmp_path / "compute-sanitizer"),
        version="2025.3.1.0",
        options=frozenset({"target-processes", "padding", "racecheck-report"}),
    )
    plain = (known.path, "--tool", "racecheck", "--target-processes", "all")
    assert command(known, Tool.RACECHECK) == plain
    assert command(known, Tool.MEMCHECK) == (*plain[:2], "memcheck", *plain[3:], "--padding", "4096")


def test_further_options_follow_the_tool_and_are_checked_before_anything_runs(tmp_path: Path) -> None:
    path = executable(tmp_path / "path")
    asked = sanitizing("racecheck --racecheck-report all")
    assert (asked.tool, asked.version) == (Tool.RACECHECK, "2025.3.1.0")
    assert asked.command == (
        *(str(path), "--tool", "racecheck", "--target-processes", "all"),
        *("--racecheck-report", "all"),
    )
    assert sanitizing("memcheck --padding=32").command[-3:] == ("--target-processes", "all", "--padding=32")
    for wrong, said in (
        ("memchek", r"unknown sanitizer 'memchek': did you mean memcheck or"),
        ("gsann", r"unknown sanitizer 'gsann': did you mean gsan"),
        ("memcheck --check-tensor-ops yes", r"2025\.3\.1\.0 has no option --check-tensor-ops"),
        ("memcheck -c 20", "give -c by its long name"),
        ("memcheck 'x", "--sanitizer memcheck 'x: No closing quotation"),
    ):
        with pytest.raises(UsageError, match=said):
            sanitizing(wrong)


def test_an_option_that_leaves_something_out_is_remembered(tmp_path: Path) -> None:
    executable(tmp_path / "path", HELP + "  --launch-count arg\n  --kernel-name-exclude arg\n  --suppressions arg\n")
    for further in ("--launch-count 20", "--kernel-name-exclude kns=norm", "--suppressions=all.xml"):
        asked = sanitizing(f"memcheck --padding 32 {further}")
        assert asked.filtered == further.partition(" ")[0].partition("=")[0]
    assert not sanitizing("memcheck --padding 32").filtered


def test_tools_that_know_allocations_have_torch_make_one_for_each_tensor() -> None:
    assert {tool: "PYTORCH_NO_CUDA_MEMORY_CACHING" in environment(tool) for tool in Tool} == {
        Tool.MEMCHECK: True,
        Tool.INITCHECK: True,
        Tool.RACECHECK: False,
        Tool.SYNCCHECK: False,
    }


def test_a_file_of_accepted_reports_is_read_and_a_missing_one_accepts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "accepts.toml"
    assert read_suppressions(path) == ()
    path.write_text('[[accept]]\ntool = "initcheck"\nkernel = "at::.*"\nreason = "torch pads"\n', encoding="utf-8")
    assert read_suppressions(path) == (Suppression(tool="initcheck", kernel="at::.*", reason="torch pads"),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[accept]]\nkernel = "a"\n', "entry 1: reason is missing"),
        ('[[accept]]\nreason = "all"\n', "entry 1 would accept everything"),
        ('[[accept]]\nkernel = "("\nreason = "a"\n', "entry 1: kernel is no pattern"),
        ('[[accept]]\nkernel = "a"\nreason = "a"\ntool = "memchek"\n', "unknown tool 'memchek': did you mean memcheck"),
        ('[[accept]]\nkernl = "a"\nreason = "a"\n', "unknown key 'kernl': did you mean kernel"),
        ('[[accept]]\nkernel = "a"\nline = "9"\nreason = "a"\n', "entry 1: line is no number"),
        ("[accept]\n", r"write \[\[accept\]\]"),
        ("accept = [1]\n", r"write \[\[accept\]\]"),
        ("[[acept]]\n", "unknown table 'acept'"),
        ("accept", "cannot be read"),
    ],
)
def test_a_wrong_entry_is_named_with_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "accepts.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        read_suppressions(path)
