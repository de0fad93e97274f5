"""The search for compute-sanitizer, its command line, and the file of accepted reports."""

from pathlib import Path

import pytest

from harness.engines.cuda.sanitizers import sanitizer_command
from harness.engines.cuda.sanitizers.sanitizer_command import Executable, command, environment, find, probe, sanitizing
from harness.engines.cuda.sanitizers.suppressions import Suppression, read_suppressions
from harness.errors import MissingPart, UsageError
from harness.model.compute_sanitizer_report import Tool
from harness.settings import Settings

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
    """No tool is on PATH, unless the test puts it there."""
    monkeypatch.setenv("PATH", f"{tmp_path}/path:/bin:/usr/bin")


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_an_executable_on_path_comes_before_a_toolkits(tmp_path: Path, variable: str) -> None:
    in_toolkit = executable(tmp_path / "cuda" / "bin")
    settings = Settings.from_environment({variable: str(tmp_path / "cuda")})
    assert find(settings) == str(in_toolkit)
    on_path = executable(tmp_path / "path")
    assert find(settings) == str(on_path)


def test_a_missing_executable_is_reported_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sanitizer_command, "_candidates", lambda _: iter(()))
    with pytest.raises(MissingPart, match=r"pip install 'nvidia-cuda-sanitizer-api>=13\.4\.92'$"):
        find(Settings())


def test_a_broken_executable_is_a_missing_part(tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    path.chmod(0o755)
    with pytest.raises(MissingPart, match="does not run"):
        probe(str(path))


def test_options_that_a_release_lacks_are_left_out(tmp_path: Path) -> None:
    known = probe(str(executable(tmp_path)))
    assert known == Executable(
        path=str(tmp_path / "compute-sanitizer"),
        version="2025.3.1.0",
        options=frozenset({"target-processes", "padding", "racecheck-report"}),
    )
    plain = (known.path, "--tool", "racecheck", "--target-processes", "all")
    assert command(known, Tool.RACECHECK) == plain
    assert command(known, Tool.MEMCHECK) == (*plain[:2], "memcheck", *plain[3:], "--padding", "4096")


def test_further_options_follow_the_tool_and_are_checked(tmp_path: Path) -> None:
    path = executable(tmp_path / "path")
    parsed = sanitizing("racecheck --racecheck-report all", Settings())
    assert (parsed.tool, parsed.version) == (Tool.RACECHECK, "2025.3.1.0")
    assert parsed.command == (
        *(str(path), "--tool", "racecheck", "--target-processes", "all"),
        *("--racecheck-report", "all"),
    )
    assert sanitizing("memcheck --padding=32", Settings()).command[-3:] == ("--target-processes", "all", "--padding=32")
    for wrong, said in (
        ("memchek", r"unknown sanitizer 'memchek': did you mean memcheck or"),
        ("gsann", r"unknown sanitizer 'gsann': did you mean gsan"),
        ("memcheck --check-tensor-ops yes", r"2025\.3\.1\.0 has no option --check-tensor-ops"),
        ("memcheck -c 20", "give -c by its long name"),
        ("memcheck 'x", "--sanitizer memcheck 'x: No closing quotation"),
    ):
        with pytest.raises(UsageError, match=said):
            sanitizing(wrong, Settings())


def test_an_option_that_filters_reports_is_recorded(tmp_path: Path) -> None:
    executable(tmp_path / "path", HELP + "  --launch-count arg\n  --kernel-name-exclude arg\n  --suppressions arg\n")
    for further in ("--launch-count 20", "--kernel-name-exclude kns=norm", "--suppressions=all.xml"):
        parsed = sanitizing(f"memcheck --padding 32 {further}", Settings())
        assert parsed.filtered == further.partition(" ")[0].partition("=")[0]
    assert not sanitizing("memcheck --padding 32", Settings()).filtered


def test_allocation_tools_disable_torchs_memory_cache() -> None:
    assert {tool: "PYTORCH_NO_CUDA_MEMORY_CACHING" in environment(tool) for tool in Tool} == {
        Tool.MEMCHECK: True,
        Tool.INITCHECK: True,
        Tool.RACECHECK: False,
        Tool.SYNCCHECK: False,
    }


def test_a_missing_file_of_accepted_reports_accepts_nothing(tmp_path: Path) -> None:
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
def test_a_wrong_entry_is_named_with_its_error(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "accepts.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        read_suppressions(path)
