"""Commands and searches on the PTX engine."""

from pathlib import Path

import pytest

from harness.engines.contract.engine_contract import SUITE
from tests.cli.command_line import Project

STUCK = """
import torch, triton, triton.language as tl


@triton.jit
def stuck(x, N: tl.constexpr):
    o = tl.arange(0, N)
    v = tl.load(x + o)
    v = tl.inline_asm_elementwise(
        "bar.sync 1, 256; mov.b32 $0, $1;", "=r,r", [v], dtype=tl.float32, is_pure=False, pack=1
    )
    tl.store(x + o, v)


stuck[(2,)](torch.zeros(100, device="cuda"), N=128)
"""

GLUON = """
import torch, triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor


@gluon.jit
def copied(x, y, XBLOCK: gl.constexpr):
    tile = gl.allocate_shared_memory(x.dtype, [1, XBLOCK], x.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, x.block_type.nbytes)
    tma.async_copy_global_to_shared(x, [0, 0], bar, tile)
    mbarrier.wait(bar, phase=0)
    mbarrier.invalidate(bar)
    tma.async_copy_shared_to_global(y, [0, 0], tile)
    tma.store_wait(pendings=0)


device = triton.runtime.driver.active.get_active_torch_device()
x = torch.arange(64.0, device=device).reshape(1, 64)
y = torch.empty_like(x)
assert x.device == device
layout = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2)
copied[(1,)](*(TensorDescriptor.from_tensor(each, [1, 64], layout) for each in (x, y)), 64)
assert torch.equal(x, y)
"""

HALF_WORD = """
import torch, triton, triton.language as tl


@triton.jit
def counted(x, n, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.atomic_add(x + o, tl.full([N], 1.0, tl.bfloat16), mask=o < n)


x = torch.zeros(39, dtype=torch.bfloat16, device="cuda")
counted[(3,)](x, 39, N=64)
assert x.tolist() == [3.0] * 39, x
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "device"),
    [pytest.param(GLUON, "h200", id="gluon"), pytest.param(HALF_WORD, "a100", id="atomic-on-half-a-word")],
)
def test_a_script_gets_right_values_from_compiled_code(tmp_path: Path, script: str, device: str) -> None:
    project = Project(tmp_path)
    project.write("script.py", script)
    child = project.start("run", "--engine", "ptx", "--device", device, "--", "python", "script.py")
    out, _ = child.communicate(timeout=300)
    assert child.returncode == 0, out
    assert "1 passed, 0 failed, 0 abstained" in out


@pytest.mark.slow
def test_a_command_learns_its_stray_lanes_and_its_barrier_by_line(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("stuck.py", STUCK)
    child = project.start("run", "--engine", "ptx", "--device", "h200", "--", "python", "stuck.py")
    out, _ = child.communicate(timeout=300)
    assert child.returncode == 1
    printed = " ".join(out.split())
    assert "stuck deadlocks: all 2 resident programs wait for bar.sync (stuck.py:" in printed
    assert "56 lanes of x outside the storage, the first at element 100 (stuck.py:" in printed


@pytest.mark.slow
def test_comparing_launches_uses_no_memory_of_the_library(tmp_path: Path) -> None:
    project = Project(tmp_path)
    where = ("--engine", "virtual,ptx", "--device", "h200", "--cases", "3", "--seed", "1")
    done = project.harness("fuzz", SUITE, "--op", "doubled", *where)
    assert "agreement 3" in " ".join(done.out.split())
    assert "uninitialised-read  " not in done.out


SUITE_OF_BLOCKS = """
from harness.suite import DType, beside, integers, op, width

INPUTS = {"blocks": integers("B", high=1000, contiguous=True), "default": integers(128, high=1000, contiguous=True)}


@op(dims={"B": width(32)}, inputs=INPUTS, dtypes=(DType.FP32,))
def scaled(blocks, default):
    return beside(__file__, "scaling.py").scaled(blocks, default)


@scaled.reference
def by_torch(blocks, default):
    return 3 * blocks.new_tensor([*blocks.repeat_interleave(4), *default[4 * len(blocks) :]])
"""
BLOCKS = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale_blocks(block_ptr, default_ptr, out_ptr, n_blocks, N: tl.constexpr):
    i = tl.arange(0, N)
    block = i // 4
    default = tl.load(default_ptr + i)
    value = tl.load(block_ptr + block, mask=block < n_blocks, other=default)
    tl.store(out_ptr + i, value * 3)


def scaled(blocks, default):
    out = torch.empty_like(default)
    scale_blocks[(1,)](blocks, default, out, len(blocks), N=128, num_warps=1)
    return out
"""
"""Triton up to 3.8 multiplies one of four values of a masked load: report 11548 of its tracker."""


@pytest.mark.slow
@pytest.mark.nightly
def test_a_finding_of_wrong_code_names_its_value_and_its_passes(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("scaling_suite.py", SUITE_OF_BLOCKS)
    project.write("scaling.py", BLOCKS)
    where = ("--engine", "virtual,ptx", "--device", "h200", "--cases", "3", "--seed", "1")
    found = project.harness("fuzz", "scaling_suite.py", *where)
    assert found.status == 1
    printed = " ".join(found.out.split())
    assert "first value %2 = arith.muli at scaling.py:13: element [5] is 2082, by TTIR 666" in printed
    (identity,) = (path.name for path in (tmp_path / ".harness" / "findings").iterdir())
    replayed = project.harness("replay", identity, "--pass-blame")
    assert replayed.status == 1
    printed = " ".join(replayed.out.split())
    assert "blamed pass one of ttgpuir.add_coalesce, ttgpuir.add_remove_layout_conversions" in printed


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--all", "--pass-blame"), "--pass-blame takes minutes for one finding"),
        (("0123abcd", "--pass-blame", "--engine", "cuda"), "which --engine cuda does not execute"),
    ],
)
def test_a_replay_that_cannot_blame_passes_is_refused(tmp_path: Path, options: tuple[str, ...], reason: str) -> None:
    finished = Project(tmp_path).harness("replay", *options)
    assert finished.status == 2
    assert reason in finished.err
