"""Builds of a kernel without one pass of Triton's pipeline."""

import time

import pytest

from harness.engines.triton.omitted_passes import LLVM, builds_without_passes

TTIR = """
module {
  tt.func public @doubled(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}) attributes {noinline = false} {
    %lane = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %at = tt.addptr %base, %lane : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %value = tt.load %at : tensor<128x!tt.ptr<f32>>
    %twice = arith.addf %value, %value : tensor<128xf32>
    tt.store %at, %twice : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""


@pytest.mark.slow
@pytest.mark.nightly
def test_each_pass_is_left_out_and_crashes_of_the_compiler_are_no_builds() -> None:
    builds = {build.omitted: build for build in builds_without_passes(TTIR, 90, {}, time.monotonic() + 200)}
    assert all(build.was_tried for build in builds.values())
    assert next(iter(builds)) == "ttir.add_convert_to_ttgpuir"
    assert list(builds)[-1] == LLVM
    assert not builds["ttir.add_convert_to_ttgpuir"].content
    assert "add.f32" in builds["ttgpuir.add_coalesce"].content
