"""Kernels in Gluon are executed from TTGIR: values, shared memory and accesses.  What is unknown abstains by name."""

from pathlib import Path
from typing import Any

import pytest
import torch
from packaging.version import Version

from harness.engines.triton.triton_seam import version
from harness.model.run import Stray
from tests.engines.conftest import Gpu, line_of
from tests.engines.virtual import gluon_kernels

kernels: Any = gluon_kernels
"""Gluon's decorator hides from type checkers that its kernels are subscripted."""
pytestmark = pytest.mark.skipif(
    Version(version).release[:2] != (3, 6), reason="Gluon is experimental: its functions change between releases"
)
HERE = str(Path(__file__).with_name("gluon_kernels.py"))


def test_a_kernel_in_gluon_has_the_values_of_its_definition(gpu: Gpu) -> None:
    x = torch.randn(32, 50)
    y = torch.empty_like(x)
    kernels.softmax_in_gluon[(2,)](x, y, 50, ROWS=16, BLOCK=64, MORE=0)
    torch.testing.assert_close(y, x.softmax(-1) + 3)
    assert gpu.memory == []
    assert [launch.kernel for launch in gpu.case_launches.launches] == ["softmax_in_gluon"]


def test_a_stray_access_has_its_line(gpu: Gpu) -> None:
    x = torch.randn(16, 50)
    kernels.softmax_in_gluon[(1,)](x, torch.empty_like(x), 50, ROWS=16, BLOCK=64, MORE=1)
    strays = [event for event in gpu.memory if isinstance(event, Stray)]
    assert [(event.site.source and event.site.source.line, event.element) for event in strays] == [
        (line_of(HERE, "may go past the end"), 16 * 50)
    ]


def test_each_program_has_shared_memory_of_its_own(gpu: Gpu) -> None:
    x, y = torch.randn(2, 128), torch.empty(2, 128)
    kernels.buffers_in_gluon[(2,)](x, y, BLOCK=128)
    torch.testing.assert_close(y, torch.stack([x[0] + x[1], 10 * x[0] + x[1]]))
    assert gpu.memory == []


def test_shared_memory_is_read_with_its_axes_exchanged(gpu: Gpu) -> None:
    x, y = torch.randn(32, 32), torch.empty(32, 32)
    kernels.transpose_in_gluon[(1,)](x, y, N=32)
    assert torch.equal(y, x.T)
    assert gpu.memory == []


def test_what_is_unknown_in_gluon_abstains_by_name(gpu: Gpu) -> None:
    unsupported = gpu.unsupported(lambda: kernels.waiting_in_gluon[(1,)](torch.zeros(1)))
    assert (unsupported.what, unsupported.kernel) == ("ttng.init_barrier", "waiting_in_gluon")
