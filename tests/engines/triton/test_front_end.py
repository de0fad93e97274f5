"""One run of Triton's front end serves all builds that it cannot tell apart, and no other."""

# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs
from triton.compiler import ASTSource, code_generator
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.language.extra.cuda import num_warps
from triton.runtime.cache import FileCacheManager, get_cache_manager

from harness.engines.triton import later_stages
from harness.engines.triton.front_end import FOLDER
from tests.engines.conftest import Gpu, MakeGpu


@triton.jit
def fill_kernel(out, VALUE: tl.constexpr):
    tl.store(out + tl.arange(0, 16), VALUE)


@triton.jit
def warps_kernel(out):
    tl.store(out + tl.arange(0, 16), num_warps())


@triton.autotune([triton.Config({}, num_warps=warps) for warps in (1, 2, 8)], key=[])
@triton.jit
def tuned_warps_kernel(out):
    tl.store(out + tl.arange(0, 16), num_warps())


@triton.autotune([triton.Config({}, num_warps=warps) for warps in (1, 2, 8)], key=[])
@triton.jit
def refused_kernel(out):
    tl.static_assert(num_warps() == 0)
    tl.store(out, 0)


@pytest.fixture
def gpu(make_gpu: MakeGpu, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Gpu:
    gpu = make_gpu((12, 0))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    forget_kernels()
    return gpu


def forget_kernels() -> None:
    for kernel in (fill_kernel, warps_kernel, tuned_warps_kernel.fn):
        kernel.device_caches.clear()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that went through the front end."""
    names: list[str] = []
    original = code_generator.ast_to_ttir

    def noting(fn: Any, *args: Any, **kwargs: Any) -> Any:
        names.append(fn.__name__)
        return original(fn, *args, **kwargs)

    monkeypatch.setattr(code_generator, "ast_to_ttir", noting)
    return names


def forget_builds(cache: Path) -> list[Path]:
    """Forget what Triton knows of its builds; return what is kept of front ends."""
    forget_kernels()
    for entry in cache.iterdir():
        if entry.name != FOLDER:
            shutil.rmtree(entry)
    return sorted((cache / FOLDER).glob("*/*"))


@pytest.mark.usefixtures("gpu")
def test_builds_with_other_numbers_of_warps_share_a_run(runs: list[str]) -> None:
    out = torch.zeros(16, dtype=torch.int32)
    kernels: list[Any] = [fill_kernel[(1,)](out, 7, num_warps=warps, num_stages=warps) for warps in (2, 4)]
    assert len(runs) == 1
    assert out.tolist() == [7] * 16
    first, second = ({stage: kernel.asm[stage] for stage in ("source", "ttir")} for kernel in kernels)
    assert first == second
    assert [kernel.metadata.num_warps for kernel in kernels] == [2, 4]


@pytest.mark.usefixtures("gpu")
def test_other_constants_have_a_run_of_their_own(runs: list[str]) -> None:
    out = torch.zeros(16, dtype=torch.int32)
    for value in (7, 8):
        fill_kernel[(1,)](out, value)
        assert out.tolist() == [value] * 16
    assert len(runs) == 2


@pytest.mark.usefixtures("gpu")
def test_a_kernel_that_asks_for_its_warps_has_a_run_each(tmp_path: Path, runs: list[str]) -> None:
    out = torch.zeros(16, dtype=torch.int32)
    for _ in range(2):
        for warps in (2, 4):
            warps_kernel[(1,)](out, num_warps=warps)
            assert out.tolist() == [warps] * 16
        assert len(runs) == 2
        assert len(forget_builds(tmp_path)) == 2


def test_all_configs_of_such_a_kernel_are_compiled(gpu: Gpu, runs: list[str]) -> None:
    gpu.chooser.compiles_all = True
    tuned_warps_kernel[(1,)](torch.zeros(16, dtype=torch.int32))
    assert len(runs) == 3


def test_configs_that_share_a_failure_are_compiled_once(gpu: Gpu, runs: list[str]) -> None:
    gpu.chooser.compiles_all = True
    with pytest.raises(CompileTimeAssertionFailure):
        refused_kernel[(1,)](torch.zeros(1, dtype=torch.int32))
    assert len(runs) == 1 + 3  # for all configs, and then in the place of each other


@pytest.mark.usefixtures("gpu")
def test_another_processs_draft_of_a_run_is_left_alone(tmp_path: Path, runs: list[str]) -> None:
    out = torch.zeros(16, dtype=torch.int32)
    fill_kernel[(1,)](out, 7)
    (kept,) = forget_builds(tmp_path)
    draft = kept.with_name(f".{kept.name}.0.unfinished")
    draft.symlink_to(tmp_path / "renamed meanwhile")
    fill_kernel[(1,)](out, 7)
    assert len(runs) == 1


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("content", ["", "[]", "{", '{"read": []}'])
def test_a_damaged_run_is_made_again(tmp_path: Path, runs: list[str], content: str) -> None:
    out = torch.zeros(16, dtype=torch.int32)
    fill_kernel[(1,)](out, 7)
    (kept,) = forget_builds(tmp_path)
    kept.write_text(content)
    fill_kernel[(1,)](out, 7)
    assert len(runs) == 2
    forget_builds(tmp_path)
    fill_kernel[(1,)](out, 7)
    assert len(runs) == 2


@pytest.mark.usefixtures("gpu")
def test_the_whole_pipeline_has_its_own_run() -> None:
    kernel: Any = fill_kernel[(1,)](torch.zeros(16, dtype=torch.int32), 7)
    source = ASTSource(fill_kernel, {"out": "*i32", "VALUE": "constexpr"}, {"VALUE": 7})
    with later_stages.whole_pipeline():
        compiled: Any = triton.compile(source, target=kernel.metadata.target)
    assert ".target sm_120" in compiled.asm["ptx"]


@pytest.mark.usefixtures("gpu")
def test_the_cache_holds_whole_files_alone(tmp_path: Path) -> None:
    kernel: Any = fill_kernel[(1,)](torch.zeros(16, dtype=torch.int32), 7)
    (entry,) = (folder for folder in tmp_path.iterdir() if folder.name not in {FOLDER, "builds"})
    stages = {f"fill_kernel.{stage}" for stage in ("source", "ttir", "cubin", "json")}
    assert {file.name for file in entry.iterdir()} == stages | {"__grp__fill_kernel.json"}
    assert (entry / "fill_kernel.ttir").read_text() == kernel.asm["ttir"]
    assert type(get_cache_manager("ab")) is not FileCacheManager


def test_a_users_own_cache_of_triton_stays(make_gpu: MakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs.cache, "manager_class", FileCacheManager)
    make_gpu((12, 0))
    assert type(get_cache_manager("ab")) is FileCacheManager
