"""Kernels are compiled to PTX once, and kept on disk."""

import json
from pathlib import Path

import pytest

from harness import catalogue
from harness.engines.ptx import ptx_builds
from harness.engines.ptx.ptx_builds import SUFFIX, PtxBuild, PtxBuilds
from harness.engines.virtual.native.native_code import ExecutorMode
from harness.errors import CannotExecute

TTIR = """
module {
  tt.func public @kernel(%x: !tt.ptr<f32>) attributes {noinline = false} {
    %one = arith.constant 1.000000e+00 : f32
    tt.store %x, %one : !tt.ptr<f32>
    tt.return
  }
}
"""
OPTIONS = {"num_warps": 1}


def test_a_damaged_file_is_compiled_again(tmp_path: Path) -> None:
    first = PtxBuilds(tmp_path, ExecutorMode.AUTO).of("digest", TTIR, 90, OPTIONS)
    path = tmp_path / f"digest{SUFFIX}"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[: len(whole) // 2], encoding="utf-8")
    again = PtxBuilds(tmp_path, ExecutorMode.AUTO).of("digest", TTIR, 90, OPTIONS)
    assert again.text == first.text
    assert path.read_text(encoding="utf-8") == whole


def test_a_kept_kernel_is_not_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PtxBuilds(tmp_path, ExecutorMode.AUTO).of("digest", TTIR, 90, OPTIONS)
    monkeypatch.delattr(ptx_builds, "compiled_text")
    assert PtxBuilds(tmp_path, ExecutorMode.AUTO).of("digest", TTIR, 90, OPTIONS).kernel.threads == 32


def build_with(**facts: int) -> PtxBuild:
    usual = {"shared": 0, "tmem_size": 0, "global_scratch_size": 0, "num_ctas": 1, "tensordesc_meta": None}
    return PtxBuild.of(json.dumps({"ptx": "", **usual, **facts}))


@pytest.mark.parametrize(
    ("facts", "refusal"),
    [
        ({"shared": 232_452}, "a block with 232,452 bytes of shared memory: the NVIDIA B200 has 232,448"),
        ({"tmem_size": 528}, "a block with 528 columns of tensor memory: the NVIDIA B200 has 512"),
    ],
)
def test_a_block_that_the_gpu_cannot_hold_is_refused(facts: dict[str, int], refusal: str) -> None:
    with pytest.raises(CannotExecute, match=refusal):
        build_with(**facts).require_room(catalogue.find("b200"))


def test_a_block_that_fills_the_gpu_is_executed() -> None:
    build_with(shared=232_448, tmem_size=512).require_room(catalogue.find("b200"))
