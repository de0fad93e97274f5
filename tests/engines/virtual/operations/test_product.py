"""Matrix products: every input precision of `tt.dot`, and block-scaled products."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import pytest
import torch
import triton
import triton.language as tl

from tests.engines.conftest import Gpu


@triton.jit
def dot_kernel(x, y, out, M: tl.constexpr, PRECISION: tl.constexpr):
    at = tl.arange(0, M)[:, None] * M + tl.arange(0, M)[None, :]
    tl.store(out + at, tl.dot(tl.load(x + at), tl.load(y + at), input_precision=PRECISION))


NUMBERS = [1 + 2.0**-11, 1 + 2.0**-10 + 2.0**-11, 1 + 2.0**-11 + 2.0**-20, 1 + 2.0**-10 - 2.0**-20, -1 - 2.0**-11, 3e38]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        ("tf32", [1.0, 1 + 2.0**-10, 1.0, 1.0, -1.0, float.fromhex("0x1.c34p127")]),
        ("tf32x3", [*NUMBERS[:5], float.fromhex("0x1.c363ccp127")]),
        ("bf16x3", [*NUMBERS[:2], 1 + 2.0**-11, 1 + 2.0**-10, NUMBERS[4], float.fromhex("0x1.c364p127")]),
        ("bf16x6", [*NUMBERS[:5], float.fromhex("0x1.c363ccp127")]),
        ("ieee", [*NUMBERS[:5], float.fromhex("0x1.c363ccp127")]),
    ],
)
def test_float32_operands_are_reduced_as_on_an_h200(gpu: Gpu, precision: str, expected: list[float], side: str) -> None:
    """The expected numbers were observed on the GPU, for `mma` and `wgmma` alike."""
    numbers, one = torch.zeros(16, 16), torch.zeros(16, 16)
    numbers[: len(NUMBERS), 0] = torch.tensor(NUMBERS)
    one[0, 0] = 1.0
    out = torch.zeros(16, 16)
    if side == "left":
        dot_kernel[(1,)](numbers, one, out, 16, precision)
    else:
        dot_kernel[(1,)](one, numbers.T.contiguous(), out, 16, precision)
        out = out.T
    assert out[: len(NUMBERS), 0].tolist() == expected
    assert gpu.seen[0].dot_precisions == (precision,)
    assert gpu.memory == []


@pytest.mark.parametrize(
    ("precision", "error"), [("tf32", 3e-3), ("tf32x3", 1e-5), ("bf16x3", 1e-4), ("bf16x6", 1e-5), ("ieee", 1e-6)]
)
def test_the_error_of_a_product_matches_its_precision(gpu: Gpu, precision: str, error: float) -> None:
    x, y, out = torch.randn(32, 32), torch.randn(32, 32), torch.zeros(32, 32)
    dot_kernel[(1,)](x, y, out, 32, precision)
    expected = x.double() @ y.double()
    worst = float((out.double() - expected).abs().max() / expected.abs().max())
    assert worst < error
    assert (worst > 1e-4) == (precision == "tf32")
    assert gpu.memory == []


@pytest.mark.parametrize("precision", ["tf32x3", "bf16x3", "bf16x6"])
def test_infinity_survives_the_split_into_parts(gpu: Gpu, precision: str) -> None:
    del gpu
    x, y, out = torch.eye(16), torch.zeros(16, 16), torch.zeros(16, 16)
    y[0, 0], y[1, 1] = float("inf"), 2.0
    dot_kernel[(1,)](x[:, :1].expand(16, 16).contiguous() * torch.eye(16), y, out, 16, precision)
    assert float(out[0, 0]) == float("inf")


@triton.jit
def wide_kernel(x, out, M: tl.constexpr):
    at = tl.arange(0, M)[:, None] * M + tl.arange(0, M)[None, :]
    value = tl.load(x + at)
    tl.store(out + at, tl.dot(value.to(tl.float64), value.to(tl.float64)).to(tl.float32))
    half = tl.dot(value.to(tl.float16), value.to(tl.float16), out_dtype=tl.float16)
    tl.store(out + M * M + at, half.to(tl.float32))


def test_products_of_float64_and_into_float16_keep_their_precision(gpu: Gpu) -> None:
    x, out = torch.randn(16, 16), torch.zeros(2, 16, 16)
    wide_kernel[(1,)](x, out, 16)
    assert torch.equal(out[0], (x.double() @ x.double()).float())
    torch.testing.assert_close(out[1], (x.half().float() @ x.half().float()).half().float(), rtol=2e-3, atol=2e-3)
    assert gpu.memory == []


FOURS = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


@triton.jit
def scaled_kernel(
    x, y, x_scales, y_scales, out, M: tl.constexpr, K: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, SCALES_RIGHT: tl.constexpr, FAST: tl.constexpr = 0,
):  # fmt: skip
    rows = tl.arange(0, M)
    inner_left: tl.constexpr = K // 2 if LEFT == "e2m1" else K
    inner_right: tl.constexpr = K // 2 if RIGHT == "e2m1" else K
    a = tl.load(x + rows[:, None] * inner_left + tl.arange(0, inner_left)[None, :])
    b = tl.load(y + tl.arange(0, inner_right)[:, None] * M + rows[None, :])
    to_scales = rows[:, None] * (K // 32) + tl.arange(0, K // 32)[None, :]
    a_scale = tl.load(x_scales + to_scales)
    if SCALES_RIGHT:
        made = tl.dot_scaled(a, a_scale, LEFT, b, tl.load(y_scales + to_scales), RIGHT, fast_math=FAST != 0)
    else:
        made = tl.dot_scaled(a, a_scale, LEFT, b, None, RIGHT, fast_math=FAST != 0)
    tl.store(out + rows[:, None] * M + rows[None, :], made)


def operand(form: str, rows: int, columns: int, packed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random bytes of a format and the numbers that they mean; `e2m1` is packed in pairs along axis `packed`."""
    if form == "e2m1":
        raw = torch.randint(0, 256, (rows, columns), dtype=torch.int32)
        raw = raw[:, : columns // 2] if packed else raw[: rows // 2]
        values = torch.stack((FOURS[raw & 15], FOURS[raw >> 4]), packed + 1)
        return raw.to(torch.uint8), values.reshape(rows, columns)
    values = torch.randn(rows, columns)
    if form in {"bf16", "fp16"}:
        narrow = values.to(torch.bfloat16 if form == "bf16" else torch.float16)
        return narrow, narrow.float()
    narrow = values.to(torch.float8_e4m3fn if form == "e4m3" else torch.float8_e5m2)
    return narrow.view(torch.uint8), narrow.float()


@pytest.mark.parametrize(
    ("left", "right", "scales_right"),
    [
        ("e2m1", "e2m1", True),
        ("e4m3", "e5m2", True),
        ("e5m2", "bf16", False),
        ("e2m1", "fp16", False),
        ("e4m3", "e4m3", True),
    ],
)
def test_scaled_products_equal_products_of_scaled_numbers(gpu: Gpu, left: str, right: str, scales_right: bool) -> None:  # noqa: FBT001 - a parametrised test
    m, k = 32, 64
    (x, a), (y, b) = operand(left, m, k, 1), operand(right, k, m, 0)
    x_scales, y_scales = (torch.randint(120, 134, (m, k // 32), dtype=torch.int32) for _ in range(2))
    out = torch.zeros(m, m)
    scaled_kernel[(1,)](
        x, y, x_scales.to(torch.uint8), y_scales.to(torch.uint8), out, m, k, left, right, scales_right
    )  # fmt: skip
    factors = [torch.exp2(scales.double() - 127).repeat_interleave(32, 1) for scales in (x_scales, y_scales)]
    expected = (a * factors[0]) @ (b * factors[1].T if scales_right else b.double())
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    assert gpu.memory == []


@pytest.mark.parametrize("fast", [False, True])
def test_a_scale_of_all_ones_is_nan_unless_fast(gpu: Gpu, fast: bool) -> None:  # noqa: FBT001 - a parametrised test
    del gpu
    x, y = torch.ones(32, 64).to(torch.float8_e4m3fn), torch.ones(64, 32).to(torch.float8_e4m3fn)
    scales = torch.full((32, 2), 127, dtype=torch.uint8)
    scales[0, 0] = 255
    out = torch.zeros(32, 32)
    raw = x.view(torch.uint8), y.view(torch.uint8)
    scaled_kernel[(1,)](
        *raw, scales, scales[1:2].expand(32, 2).contiguous(), out, 32, 64, "e4m3", "e4m3", SCALES_RIGHT=True, FAST=fast
    )
    assert bool(out[0].isnan().all()) != fast
    assert bool(out[0].isinf().all()) == fast
    assert torch.equal(out[1:], torch.full((31, 32), 64.0))


@triton.jit
def packed_rows_kernel(x, y, scales, out, M: tl.constexpr, K: tl.constexpr):
    rows, half, inner = tl.arange(0, M), tl.arange(0, M // 2), tl.arange(0, K)
    a = tl.load(x + half[:, None] * K + inner[None, :])
    b = tl.load(y + inner[:, None] * M + rows[None, :])
    scale = tl.load(scales + rows[:, None] * (K // 32) + tl.arange(0, K // 32)[None, :])
    made = tl.dot_scaled(a, scale, "e2m1", b, None, "bf16", lhs_k_pack=False)
    tl.store(out + rows[:, None] * M + rows[None, :], made)


def test_four_bit_floats_can_be_packed_along_the_outer_axis(gpu: Gpu) -> None:
    m, k = 32, 64
    (x, a), (y, b) = operand("e2m1", m, k, 0), operand("bf16", k, m, 0)
    scales, out = torch.full((m, k // 32), 128, dtype=torch.uint8), torch.zeros(m, m)
    packed_rows_kernel[(1,)](x, y, scales, out, m, k)
    torch.testing.assert_close(out, 2 * a @ b, rtol=1e-5, atol=1e-4)
    assert gpu.memory == []
