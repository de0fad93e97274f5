"""Inductor's C++ wrappers are generated without a GPU, and the scratch memory that they allocate is checked."""

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ci.check_inductor_scratch import ROOT, generate, judge
from ci.wrapper_scratch import allocated_bytes

INSTALLED = importlib.metadata.version("torch").partition("+")[0]
SCALED = "static_cast<int64_t>(256) * grid_0 * grid_1 * grid_2"
LAZY = "global_scratch * static_cast<int64_t>(grid_0) * grid_1 * grid_2"
ENOUGH = "enough in 500 drawn grids"
SHORT = "too little: double_kernel_0 with grid (1, 1, 2) needs 512 bytes and gets 256"

pytestmark = pytest.mark.slow


def check(*arguments: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ci.check_inductor_scratch", *arguments],
        cwd=ROOT,
        env=os.environ | ({"HARNESS_CACHE": str(cache)} if cache else {}),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Both wrappers of the installed torch."""
    return generate(INSTALLED, "h200", tmp_path_factory.mktemp("unused-cache"))


def release_with(cache: Path, name: str, **replaced: str) -> None:
    """Put a release into the cache: that of the installed torch with other texts in the files that write launches."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    installed = Path(spec.origin or "").parent
    for file in ("cpp_wrapper_gpu.py", "cuda/device_op_overrides.py"):
        text = (installed / "_inductor/codegen" / file).read_text(encoding="utf-8")
        for old, new in replaced.items():
            text = text.replace(old, new)
        copy = cache / "torch-sources" / name / "torch/_inductor/codegen" / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")


def test_both_wrappers_of_the_installed_torch_allocate_enough(written: dict[str, Any]) -> None:
    verdicts = {path: judge(written[path], written["symbols"], written["builds"]) for path in ("lazy", "ahead")}
    assert verdicts == {"lazy": (f"{ENOUGH}; allocates `{LAZY}`", 0), "ahead": (f"{ENOUGH}; allocates `{SCALED}`", 0)}


def test_inductor_builds_one_cta_for_a_config_of_two(written: dict[str, Any]) -> None:
    first, second = ({"block": block, "scratch_bytes": 256, "ctas": 1} for block in (16, 32))
    assert written["builds"] == {"double_kernel": [first], "triple_kernel": [first, second]}


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ("256", f"{SHORT}; allocates `256`"),
        ("256 * grid_0 * grid_2", "too little: double_kernel_0 with grid (1, 2, 1) needs 512 bytes and gets 256; "),
        ("bytes_of(grid_0)", "unknown form: cannot evaluate `bytes_of(grid_0)`"),
    ],
)
def test_a_wrong_size_in_the_generated_wrapper_is_found(written: dict[str, Any], expression: str, verdict: str) -> None:
    text = written["ahead"].replace(SCALED, expression)
    said, _ = judge(text, written["symbols"], written["builds"])
    assert said.startswith(verdict)


def test_a_product_that_overflows_32_bits_is_found(written: dict[str, Any]) -> None:
    text = written["ahead"].replace(SCALED, "256 * grid_0 * grid_1 * grid_2")
    said, status = judge(text, written["symbols"], written["builds"])
    assert (said.partition(":")[0], status) == ("too little", 1)


def test_a_size_that_is_not_allocated_is_an_unknown_form(written: dict[str, Any]) -> None:
    text = written["ahead"].replace("aoti_torch_empty_strided(1, global", "aoti_torch_empty_strided(1, other")
    assert judge(text, written["symbols"], written["builds"]) == (
        "unknown form: the launch of double_kernel_0 allocates scratch memory 0 times",
        2,
    )


def test_the_report_on_a_gpu_reads_the_same_sizes(written: dict[str, Any]) -> None:
    sizes = {
        path: allocated_bytes(written[path], "double_kernel", grid=(256, 2, 1), scratch_bytes=256)
        for path in ("lazy", "ahead")
    }
    assert sizes == {"lazy": 131072, "ahead": 131072}


@pytest.mark.nightly
def test_a_release_that_writes_another_form_exits_with_two(tmp_path: Path) -> None:
    release_with(tmp_path, "9.9", **{"int64_t {var_name}_size[] =": "auto {var_name}_size[] ="})
    finished = check("--torch", "9.9", cache=tmp_path)
    assert (finished.stdout.splitlines()[1:], finished.returncode) == (
        [
            f"torch 9.9     lazy   {ENOUGH}; allocates `{LAZY}`",
            "torch 9.9     ahead  unknown form: the launch of double_kernel_0 declares no scratch memory",
        ],
        2,
    )


def test_a_gpu_without_descriptors_needs_no_scratch_memory() -> None:
    finished = check("--torch", INSTALLED, "--device", "a100")
    verdicts = [line.split(maxsplit=3)[3] for line in finished.stdout.splitlines()[1:]]
    assert (verdicts, finished.returncode) == (["needs no scratch memory"] * 2, 0)


def test_code_of_a_release_that_does_not_run_is_one_line(tmp_path: Path) -> None:
    release_with(tmp_path, "9.9", **{"import sympy": "import sympy_of_tomorrow"})
    finished = check("--torch", "9.9", cache=tmp_path)
    assert (finished.stdout.splitlines()[1:], finished.returncode) == (
        ["torch 9.9: its wrapper cannot be generated: ModuleNotFoundError: No module named 'sympy_of_tomorrow'"],
        2,
    )


@pytest.mark.nightly
def test_the_bad_and_the_mended_release_of_pypi_differ() -> None:
    finished = check("--torch", "2.11.0", "--torch", "2.12.1")
    assert (finished.stdout.splitlines()[1:], finished.returncode) == (
        [
            "torch 2.11.0  lazy   the release has no such path",
            f"torch 2.11.0  ahead  {SHORT}; allocates `256`",
            f"torch 2.12.1  lazy   {SHORT}; allocates `global_scratch`",
            f"torch 2.12.1  ahead  {ENOUGH}; allocates `{SCALED}`",
        ],
        1,
    )


def test_a_release_that_no_index_has_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "simple" / "torch" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("<!DOCTYPE html><html><body></body></html>", encoding="utf-8")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    for other in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(other, raising=False)
    finished = check("--torch", "2.99.0", cache=tmp_path / "cache")
    (line,) = finished.stdout.splitlines()[1:]
    assert (line.partition(" (")[0], finished.returncode) == (
        "torch 2.99.0: pip finds no wheel for macOS: Could not find a version that satisfies the requirement "
        "torch==2.99.0",
        2,
    )
