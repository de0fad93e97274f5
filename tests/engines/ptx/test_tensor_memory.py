"""Products on sm_100, whose sums lie in tensor memory, have the values of their definition; a missing wait shows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl
from numpy.typing import NDArray

from tests.engines.ptx import tensor_kernels as kernels
from tests.engines.ptx.ptx_runs import Ptx, compiled, kinds

Array = NDArray[Any]
BLACKWELL = 100
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
DTYPES = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
}
CONSTANTS = {"M": 128, "N": 64, "BLOCK": 64, "OUT": tl.float32, "TURNED": False}


@pytest.fixture
def draws() -> np.random.Generator:
    return np.random.default_rng(0)


def numbers(draws: np.random.Generator, rows: int, columns: int, kind: str) -> tuple[Array, Array]:
    """Return drawn numbers as they lie in memory, and in float64."""
    drawn = torch.tensor(draws.standard_normal((rows, columns))).to(DTYPES[kind])
    return drawn.view(torch.uint8).numpy(), drawn.double().numpy()


def product(cache: Path, kind: str = "fp16", out: str = "fp32", **constants: Any) -> Ptx:
    signature = {"a": f"*{kind}", "b": f"*{kind}", "c": f"*{out}", "K": "i32"}
    return compiled(cache, kernels.product, signature, {**CONSTANTS, **constants}, BLACKWELL)


@pytest.mark.parametrize(
    ("kind", "shape", "tolerance"),
    [
        ("fp16", (128, 64, 64), 1e-5),
        ("bf16", (64, 128, 64), 1e-5),
        ("fp32", (128, 64, 32), 0.1),  # tf32 has ten bits
        ("fp8e4nv", (128, 64, 64), 1e-5),
        ("fp8e5", (128, 64, 64), 1e-5),
    ],
)
def test_a_product_has_the_value_of_its_definition(
    kernel_cache: Path, draws: np.random.Generator, kind: str, shape: tuple[int, int, int], tolerance: float
) -> None:
    height, width, block = shape
    (a, left), (b, right) = numbers(draws, height, 192, kind), numbers(draws, width, 192, kind)
    c = np.zeros((height, width), np.float32)
    run = product(kernel_cache, kind, M=height, N=width, BLOCK=block).run([a, b, c, 192])
    np.testing.assert_allclose(c, left @ right.T, atol=tolerance)
    assert run.stuck is None
    assert kinds(run) <= {"missing proxy fence"}  # Triton 3.6 has none after cp.async


def test_operands_may_be_stored_along_their_depth(kernel_cache: Path, draws: np.random.Generator) -> None:
    (a, left), (b, right) = numbers(draws, 128, 128, "fp16"), numbers(draws, 128, 64, "fp16")
    c = np.zeros((128, 64), np.float32)
    product(kernel_cache, TURNED=True).run([a, b, c, 128])
    np.testing.assert_allclose(c, left.T @ right, atol=1e-5)


@pytest.mark.parametrize("height", [64, 128])
def test_sums_in_half_precision_lie_in_halves_of_cells(
    kernel_cache: Path, draws: np.random.Generator, height: int
) -> None:
    (a, left), (b, right) = numbers(draws, height, 64, "fp16"), numbers(draws, 64, 64, "fp16")
    c = np.zeros((height, 64), np.float16)
    ptx = product(kernel_cache, out="fp16", M=height, OUT=tl.float16)
    assert "pack::16b" in ptx.text
    ptx.run([a, b, c, 64])
    np.testing.assert_allclose(c, left @ right.T, atol=0.02)


@pytest.mark.parametrize("height", [64, 128])
def test_the_left_operand_may_lie_in_tensor_memory(kernel_cache: Path, draws: np.random.Generator, height: int) -> None:
    ptx = two_products(kernel_cache, height)
    a, b, v = (numbers(draws, rows, 64, "fp16") for rows in (height, 64, 64))
    c = np.zeros((height, 64), np.float32)
    run = ptx.run([a[0], b[0], v[0], c])
    weights = (a[1] @ b[1].T / 8).astype(np.float16).astype(np.float64)
    np.testing.assert_allclose(c, weights @ v[1], atol=0.02)
    assert run.flaws == ()


def two_products(cache: Path, height: int) -> Ptx:
    signature = {"a": "*fp16", "b": "*fp16", "v": "*fp16", "c": "*fp32"}
    ptx = compiled(cache, kernels.two_products, signature, {"M": height, "N": 64}, BLACKWELL)
    assert "tcgen05.mma" in ptx.text
    return ptx


def scaled_numbers(
    draws: np.random.Generator, rows: int, form: str, group: int, depth: int
) -> tuple[Array, Array, Array]:
    """Return elements and scales as they lie in memory, and the scaled numbers in float64."""
    if form == "e2m1":
        raw = draws.integers(0, 256, (rows, depth // 2)).astype(np.uint8)
        values = np.stack((E2M1[raw & 15], E2M1[raw >> 4]), axis=-1).reshape(rows, depth)
    else:
        raw, values = numbers(draws, rows, depth, "fp8e4nv" if form == "e4m3" else "fp8e5")
    if group == 16:
        kept, scales = numbers(draws, rows, depth // group, "fp8e4nv")
        kept, scales = kept & 0x7F, np.abs(scales)
    else:
        kept = draws.integers(120, 130, (rows, depth // group)).astype(np.uint8)
        scales = np.ldexp(1.0, kept.astype(np.int64) - 127)
    return raw, kept, values * np.repeat(scales, group, axis=1)


@pytest.mark.parametrize(
    ("forms", "group", "kind"),
    [
        (("e4m3", "e5m2"), 32, "mxf8f6f4"),
        (("e4m3", "e2m1"), 32, "mxf8f6f4"),
        (("e2m1", "e2m1"), 32, "mxf4"),
        (("e2m1", "e2m1"), 16, "mxf4nvf4"),
    ],
)
def test_a_block_scaled_product_multiplies_by_both_scales(
    kernel_cache: Path, draws: np.random.Generator, forms: tuple[str, str], group: int, kind: str
) -> None:
    left, right = forms
    types = {"e4m3": "*fp8e4nv", "e5m2": "*fp8e5", "e2m1": "*u8"}
    scale = "*fp8e4nv" if group == 16 else "*u8"
    signature = {"a": types[left], "a_scale": scale, "b": types[right], "b_scale": scale, "c": "*fp32"}
    packed = {"A_PACKED": 1 + (left == "e2m1"), "B_PACKED": 1 + (right == "e2m1")}
    constants = {"M": 128, "N": 128, "K": 128, "A": left, "B": right, "GROUP": group, **packed}
    ptx = compiled(kernel_cache, kernels.scaled_product, signature, constants, BLACKWELL)
    assert f"kind::{kind}.block_scale" in ptx.text
    a, b = (scaled_numbers(draws, 128, form, group, 128) for form in forms)
    c = np.zeros((128, 128), np.float32)
    ptx.run([a[0], a[1], b[0], b[1], c])
    np.testing.assert_allclose(c, a[2] @ b[2].T, rtol=1e-5, atol=1e-3)


def test_scales_may_be_copied_from_shared_memory(kernel_cache: Path, draws: np.random.Generator) -> None:
    signature = {"a": "*fp8e4nv", "a_scale": "*u8", "b": "*fp8e4nv", "b_scale": "*u8", "c": "*fp32", "K": "i32"}
    ptx = compiled(kernel_cache, kernels.product_with_copied_scales, signature, {"N": 256}, BLACKWELL)
    assert "tcgen05.cp" in ptx.text
    a, b = scaled_numbers(draws, 128, "e4m3", 32, 512), scaled_numbers(draws, 256, "e4m3", 32, 512)
    c = np.zeros((128, 256), np.float32)
    run = ptx.run([a[0], in_blocks(a[1]), b[0], in_blocks(b[1]), c, 512])
    np.testing.assert_allclose(c, a[2] @ b[2].T, rtol=1e-5, atol=1e-3)
    assert run.flaws == ()


def in_blocks(scales: Array) -> Array:
    """Return the scales of 128 rows and four groups as blocks of 512 bytes."""
    rows, groups = scales.shape
    return np.ascontiguousarray(scales.reshape(rows // 128, 4, 32, groups // 4, 4).transpose(0, 3, 2, 1, 4))


@pytest.mark.parametrize("in_partitions", [False, True])
def test_attention_in_partitions_of_warps_has_its_value_and_no_flaw(
    kernel_cache: Path, draws: np.random.Generator, *, in_partitions: bool
) -> None:
    q, k, v = (numbers(draws, 320, 64, "fp16") for _ in range(3))
    o = np.zeros((320, 64), np.float16)
    run = attention(kernel_cache, in_partitions=in_partitions).run([q[0], k[0], v[0], o, 320], grid=3)
    powers = np.exp2(q[1] @ k[1].T / 4)
    np.testing.assert_allclose(o, powers / powers.sum(1, keepdims=True) @ v[1], atol=2e-3)
    assert (run.stuck, run.flaws) == (None, ())


def attention(cache: Path, *, in_partitions: bool) -> Ptx:
    signature = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "o": "*fp16", "n": "i32"}
    ptx = compiled(cache, kernels.attention, signature, {"IN_PARTITIONS": in_partitions}, BLACKWELL)
    assert ("brx.idx" in ptx.text) == in_partitions
    return ptx


# --- what is missing shows -------------------------------------------------------------------------------------------


def test_sums_are_old_without_the_wait_for_the_product(kernel_cache: Path, draws: np.random.Generator) -> None:
    (a, left), (b, right) = numbers(draws, 128, 64, "fp16"), numbers(draws, 64, 64, "fp16")
    ptx = product(kernel_cache).without("try_wait").without("@!complete bra")
    c = np.ones((128, 64), np.float32)
    run = ptx.run([a, b, c, 64])
    assert not np.allclose(c, left @ right.T, atol=1e-2)
    assert "outside allocated tensor memory" in kinds(run)  # the product lands after all has been freed


def test_a_product_reads_old_cells_without_the_wait_for_a_store(kernel_cache: Path, draws: np.random.Generator) -> None:
    a, b, v = (numbers(draws, 128 if rows else 64, 64, "fp16")[0] for rows in (1, 0, 0))
    c = np.zeros((128, 64), np.float32)
    two_products(kernel_cache, 128).without("tcgen05.wait::st").run([a, b, v, c])
    assert np.isnan(c).all()


def test_a_write_to_cells_that_a_load_reads_is_a_flaw(kernel_cache: Path, draws: np.random.Generator) -> None:
    q, k, v = (numbers(draws, 320, 64, "fp16")[0] for _ in range(3))
    ptx = attention(kernel_cache, in_partitions=False).without("tcgen05.wait::ld")
    run = ptx.run([q, k, v, np.zeros((320, 64), np.float16), 320], grid=3)
    flaw = next(flaw for flaw in run.flaws if flaw.kind == "written during a load")
    assert flaw.other is not None
    assert flaw.other.words[:2] == ("tcgen05", "ld")


def test_tensor_memory_that_is_not_freed_is_a_flaw(kernel_cache: Path, draws: np.random.Generator) -> None:
    a, b = numbers(draws, 128, 64, "fp16")[0], numbers(draws, 64, 64, "fp16")[0]
    run = product(kernel_cache).without("tcgen05.dealloc").run([a, b, np.zeros((128, 64), np.float32), 64])
    (flaw,) = (flaw for flaw in run.flaws if flaw.kind == "tensor memory not freed")
    assert (flaw.instruction.words[1], flaw.text) == ("alloc", "64 columns")


def test_tensor_memory_that_is_freed_twice_is_a_flaw(kernel_cache: Path, draws: np.random.Generator) -> None:
    ptx = product(kernel_cache)
    (line,) = (line for line in ptx.text.splitlines() if "tcgen05.dealloc" in line)
    twice = Ptx(ptx.text.replace(line, f"{line}\n{line}"), ptx.shared_bytes)
    a, b = numbers(draws, 128, 64, "fp16")[0], numbers(draws, 64, 64, "fp16")[0]
    run = twice.run([a, b, np.zeros((128, 64), np.float32), 64])
    assert "freed tensor memory is not allocated" in kinds(run)
