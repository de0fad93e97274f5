"""Kernels are compiled to PTX once, and kept on disk."""

from pathlib import Path

import pytest

from harness.engines.ptx import ptx_builds
from harness.engines.ptx.ptx_builds import SUFFIX, PtxBuilds
from harness.engines.virtual.native.native_code import ExecutorMode

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
