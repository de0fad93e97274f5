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
