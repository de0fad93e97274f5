"""What only Gluon emits for tensor memory: loads of every shape, copies of tiles, and products of CTA pairs."""

# Gluon's layouts have no types.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.version import Version
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell

from harness.engines.triton.triton_seam import version
from tests.engines.ptx import tensor_gluon_kernels as kernels
from tests.engines.ptx.ptx_runs import Ptx, compiled

BLACKWELL = 100
SIGNATURE = {"a": "*fp16", "b": "*fp16"}
RELEASE = Version(version).release[:2]
only_36 = pytest.mark.skipif(RELEASE != (3, 6), reason="Gluon's functions change between releases")
only_39 = pytest.mark.skipif(RELEASE < (3, 9), reason="Gluon has products of CTA pairs from 3.9 on")


def product(cache: Path, rows: int, out: Any, tensor: Any, result: Any) -> Ptx:
    constants = {
        "M": rows,
        "LEFT": kernels.ROWS,
        "RIGHT": kernels.COLUMNS,
        "LEFT_TILE": kernels.tile(16),
        "RIGHT_TILE": kernels.tile(16, turned=True),
        "TENSOR": tensor,
        "OUT": out,
        "RESULT": result,
    }
    signature = {**SIGNATURE, "c": "*fp16" if out == gl.float16 else "*fp32"}
    return compiled(cache, kernels.product_in_gluon, signature, constants, BLACKWELL)


def check(ptx: Ptx, rows: int, out: type[Any], ctas: int = 1) -> None:
    draws = np.random.default_rng(0)
    a, b = (draws.standard_normal((count, 64)).astype(np.float16) for count in (rows, 64))
    c = np.zeros((rows, 64), out)
    run = ptx.run([a, b, c], grid=ctas)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c, expected, atol=0.02 if out == np.float16 else 1e-5)
    assert (run.stuck, run.flaws) == (None, ())


@only_36
@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("shape", ["32x32b", "16x64b", "16x128b", "16x256b"])
def test_a_load_of_each_shape_has_its_elements(kernel_cache: Path, shape: str, rows: int) -> None:
    tensor = blackwell.TensorMemoryLayout((rows, 64), col_stride=1)
    result = blackwell.get_tmem_reg_layout(gl.float32, [rows, 64], tensor, 4, shape)
    ptx = product(kernel_cache, rows, gl.float32, tensor, result)
    assert f"tcgen05.ld.sync.aligned.{'16x32bx2' if (shape, rows) == ('32x32b', 64) else shape}." in ptx.text
    check(ptx, rows, np.float32)


@only_36
@pytest.mark.parametrize("shape", ["16x64b", "16x256b"])
def test_a_packing_load_joins_halves_of_neighbouring_columns(kernel_cache: Path, shape: str) -> None:
    tensor = blackwell.TensorMemoryLayout((128, 64), col_stride=2)
    result = blackwell.get_tmem_reg_layout(gl.float16, [128, 64], tensor, 4, shape)
    ptx = product(kernel_cache, 128, gl.float16, tensor, result)
    assert "pack::16b" in ptx.text
    check(ptx, 128, np.float16)


@only_36
def test_a_tile_is_copied_from_shared_memory(kernel_cache: Path) -> None:
    tensor = blackwell.TensorMemoryLayout((128, 64), col_stride=1)
    result = blackwell.get_tmem_reg_layout(gl.float32, [128, 64], tensor, 4, "32x32b")
    constants = {"TILE": kernels.tile(32), "L": kernels.ROWS, "TENSOR": tensor, "RESULT": result}
    ptx = compiled(kernel_cache, kernels.copy_in_gluon, {"x": "*fp32", "y": "*fp32"}, constants, BLACKWELL)
    x = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    y = np.zeros_like(x)
    assert ptx.run([x, y]).flaws == ()
    np.testing.assert_array_equal(x, y)


@pytest.mark.both
@only_39
@pytest.mark.parametrize("rows", [128, 256])
def test_a_pair_of_ctas_computes_one_product(kernel_cache: Path, rows: int) -> None:
    by_row, by_column = [[1, 0]], [[0, 1]]
    constants = {
        "M": rows,
        "LEFT": gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=by_row),
        "RIGHT": gl.BlockedLayout([8, 1], [8, 4], [1, 4], [0, 1], cga_layout=by_column),
        "LEFT_TILE": kernels.tile(16, cga_layout=by_row),
        "RIGHT_TILE": kernels.tile(16, turned=True, cga_layout=by_column),
        "TENSOR": blackwell.TensorMemoryLayout((rows // 2, 64), col_stride=1, cga_layout=by_row, two_ctas=True),
    }
    signature = {**SIGNATURE, "c": "*fp32"}
    ptx = compiled(kernel_cache, kernels.pair_product_in_gluon, signature, constants, BLACKWELL, ctas=2)
    assert "cta_group::2" in ptx.text
    assert "multicast::cluster" in ptx.text
    check(ptx, rows, np.float32, ctas=2)
