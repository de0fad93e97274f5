"""Inline assembly: the PTX that libraries use runs, and unknown instructions are reported."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportAssignmentType=false

from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait, globaltimer, smid

from harness.engines.virtual.operations.ptx import Registers, read
from tests.engines.conftest import Gpu, MakeGpu

SOFTPLUS = tl.constexpr("""{
    .reg .pred p;
    setp.gt.f32  p, $1, 20.;
    @p  mov.f32  $0, $1;
    @!p mul.f32            $0, $1, 1.4426950408889634;
    @!p ex2.approx.ftz.f32 $0, $0;   // a comment; with a semicolon
    @!p add.f32            $0, $0, 1.0;
    @!p lg2.approx.ftz.f32 $0, $0;
    @!p mul.f32            $0, $0, 0.6931471805599453;
}""")


@triton.jit
def softplus_kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    made = tl.inline_asm_elementwise(SOFTPLUS, "=r,r", [value], tl.float32, is_pure=True, pack=1)
    tl.store(out + at, tl.inline_asm_elementwise("mov.f32 $0, $1;", "=r,r", [made], tl.float32, is_pure=True, pack=1))


def test_a_softplus_with_predicates_is_computed(gpu: Gpu) -> None:
    x, out = torch.linspace(-30, 60, 128), torch.zeros(128)
    softplus_kernel[(1,)](x, out, 128)
    torch.testing.assert_close(out, torch.nn.functional.softplus(x), rtol=1e-5, atol=1e-7)
    assert gpu.memory == []


@triton.jit
def fast_types_kernel(x, raw, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(raw + at, tl.load(x + at).to(tl.float8e4b15).to(tl.uint8, bitcast=True))
    tl.store(out + at, tl.load(raw + at).to(tl.float8e4b15, bitcast=True).to(tl.float32))


def test_tritons_own_8_bit_float_has_three_mantissa_bits(make_gpu: MakeGpu) -> None:
    make_gpu((8, 0))
    x = torch.tensor([0.0, 1.0, -1.0, 1.125, 0.5, 1.75, 3.0, -0.0078125])
    raw, out = torch.zeros(8, dtype=torch.uint8), torch.zeros(8)
    fast_types_kernel[(1,)](x, raw, out, 8)
    assert out.tolist() == [0.0, 1.0, -1.0, 1.125, 0.5, 1.75, 1.75, -0.0078125]


FOUR_FOURS = tl.constexpr("""{
    .reg .b8 byte0, byte1, byte2, byte3;
    cvt.rn.satfinite.e2m1x2.f32 byte0, $5, $1;
    cvt.rn.satfinite.e2m1x2.f32 byte1, $6, $2;
    cvt.rn.satfinite.e2m1x2.f32 byte2, $7, $3;
    cvt.rn.satfinite.e2m1x2.f32 byte3, $8, $4;
    mov.b32 $0, {byte0, byte1, byte2, byte3};
}""")


@triton.jit
def fours_kernel(low, high, out, N: tl.constexpr):
    at = tl.arange(0, N)
    pair = [tl.load(low + at), tl.load(high + at)]
    made = tl.inline_asm_elementwise(FOUR_FOURS, "=r,r,r,r,r,r,r,r,r", pair, tl.uint8, is_pure=True, pack=4)
    tl.store(out + at, made)


def test_four_bit_floats_are_packed_in_pairs(gpu: Gpu) -> None:
    low = torch.tensor([0.0, 0.5, 0.75, 1.25, 2.5, 3.5, 5.0, 100.0])
    high = torch.tensor([-0.0, -0.24, -0.26, -1.75, -2.4, -4.9, -5.1, float("nan")])
    out = torch.zeros(8, dtype=torch.uint8)
    fours_kernel[(1,)](low, high, out, 8)
    assert (out & 15).tolist() == [0, 1, 2, 2, 4, 6, 6, 7]
    assert (out >> 4).tolist() == [8, 8, 9, 12, 12, 14, 15, 7]
    assert gpu.memory == []


@triton.jit
def packed_kernel(low, high, out, N: tl.constexpr):
    at = tl.arange(0, N)
    pair = [tl.load(low + at), tl.load(high + at)]
    interleave: tl.constexpr = "prmt.b32 $0, $2, $3, 0x5140; prmt.b32 $1, $2, $3, 0x7362;"
    tl.store(out + at, tl.inline_asm_elementwise(interleave, "=r,=r,r,r", pair, tl.uint16, is_pure=True, pack=4))


def test_narrow_elements_share_registers(gpu: Gpu) -> None:
    low, high = (torch.randint(0, 256, (2, 8), dtype=torch.int32)).to(torch.uint8)
    out = torch.zeros(8, dtype=torch.int16)
    packed_kernel[(1,)](low, high, out, 8)
    assert (out.int() & 0xFFFF).tolist() == (low.int() | high.int() << 8).tolist()
    assert gpu.memory == []


@triton.jit
def two_results_kernel(x, y, total, difference, N: tl.constexpr):
    at = tl.arange(0, N)
    both: tl.constexpr = "{ add.rn.f32 $0, $2, $3; sub.rn.f32 $1, $2, $3; }"
    pair = [tl.load(x + at), tl.load(y + at)]
    run_text, two = tl.inline_asm_elementwise(both, "=f,=f,f,f", pair, (tl.float32, tl.float32), is_pure=True, pack=1)
    tl.store(total + at, run_text)
    tl.store(difference + at, two)


def test_a_text_may_have_two_results(gpu: Gpu) -> None:
    x, y, total, difference = torch.randn(8), torch.randn(8), torch.zeros(8), torch.zeros(8)
    two_results_kernel[(1,)](x, y, total, difference, 8)
    assert torch.equal(total, x + y)
    assert torch.equal(difference, x - y)
    assert gpu.memory == []


@triton.jit
def surroundings_kernel(out):
    gdc_wait()
    before = globaltimer()
    tl.store(out, smid())
    gdc_launch_dependents()
    tl.store(out + 1, (globaltimer() > before).to(tl.int32))


def test_the_clock_advances_and_launch_dependencies_have_no_effect(gpu: Gpu) -> None:
    out = torch.full((2,), -1, dtype=torch.int32)
    surroundings_kernel[(1,)](out)
    assert out.tolist() == [0, 1]
    assert gpu.memory == []


def run_text(text: str, *given: Any) -> Any:
    """Run a text on 32-bit registers and return `$0`."""
    registers = Registers(1, pytest.fail)
    for number, value in enumerate(given, 1):
        dtype = np.float32 if isinstance(value, float) else np.uint32
        registers.put(f"${number}", np.array([value], dtype).view(np.uint32))
    with np.errstate(all="ignore"):
        for instruction in read(text):
            registers.run(instruction)
    return int(registers.get("$0", 32)[0])


def bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("ex2.approx.ftz.f32 $0, $1;", (3.0,), bits(8.0)),
        ("ex2.approx.ftz.f32 $0, $1;", (-140.0,), bits(0.0)),
        ("lg2.approx.f32 $0, $1;", (8.0,), bits(3.0)),
        ("tanh.approx.f32 $0, $1;", (0.5,), bits(np.tanh(0.5))),
        ("rcp.approx.ftz.f32 $0, $1;", (4.0,), bits(0.25)),
        ("rsqrt.approx.f32 $0, $1;", (4.0,), bits(0.5)),
        ("sqrt.rn.f32 $0, $1;", (9.0,), bits(3.0)),
        ("sin.approx.f32 $0, $1;", (0.0,), bits(0.0)),
        ("cos.approx.f32 $0, $1;", (0.0,), bits(1.0)),
        ("fma.rn.f32 $0, $1, $2, $3;", (2.0, 3.0, 1.0), bits(7.0)),
        ("div.full.f32 $0, $1, $2;", (3.0, 2.0), bits(1.5)),
        ("neg.ftz.f32 $0, $1;", (1e-40,), bits(-0.0)),
        ("abs.f32 $0, $1;", (-2.0,), bits(2.0)),
        ("max.f32 $0, $1, $2;", (float("nan"), 2.0), bits(2.0)),
        ("add.sat.f32 $0, $1, 1.0;", (0.5,), bits(1.0)),
        ("mul.f32 $0, $1, 0f40000000;", (1.5,), bits(3.0)),
        ("add.s32 $0, $1, -1;", (0,), 0xFFFFFFFF),
        ("mul.lo.u32 $0, $1, $2;", (0x10001, 0x10001), 0x20001),
        ("mul.hi.u32 $0, $1, $2;", (0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFE),
        ("mul.hi.s32 $0, $1, $2;", (0xFFFFFFFF, 2), 0xFFFFFFFF),
        ("mad.lo.s32 $0, $1, $2, $3;", (3, 4, 5), 17),
        ("{ .reg .b64 w; mul.wide.u32 w, $1, $2; cvt.u32.u64 $0, w; }", (0xFFFFFFFF, 2), 0xFFFFFFFE),
        ("min.s32 $0, $1, $2;", (0xFFFFFFFF, 1), 0xFFFFFFFF),
        ("min.u32 $0, $1, $2;", (0xFFFFFFFF, 1), 1),
        ("shl.b32 $0, $1, 4;", (1,), 16),
        ("shl.b32 $0, $1, 32;", (1,), 0),
        ("shr.u32 $0, $1, 4;", (0x80000000,), 0x08000000),
        ("shr.s32 $0, $1, 31;", (0x80000000,), 0xFFFFFFFF),
        ("shf.l.wrap.b32 $0, $1, $2, 36;", (0x12345678, 0x9ABCDEF0), 0xABCDEF01),
        ("shf.r.clamp.b32 $0, $1, $2, 36;", (0x12345678, 0x9ABCDEF0), 0x9ABCDEF0),
        ("and.b32 $0, $1, 0xFF;", (0x1234,), 0x34),
        ("lop3.b32 $0, $1, 0x80008000, $2, 0xf8;", (1, 0x8000), 0x8001),
        ("prmt.b32 $0, $1, $2, 0x7531;", (0x44332211, 0x88776655), 0x88664422),
        ("prmt.b32 $0, $1, 0, 0x0008;", (0x80,), 0x808080FF),
        ("{ .reg .pred p; setp.eq.u32 p, $1, 3; selp.b32 $0, 7, 8, p; }", (3,), 7),
        ("{ .reg .pred p, q; setp.leu.f32 p|q, $1, 1.0; selp.b32 $0, 7, 8, q; }", (float("nan"),), 8),
        ("cvt.rn.bf16x2.f32 $0, $1, $2;", (1.0, 2.0), 0x3F804000),
        ("cvt.rz.f16x2.f32 $0, $1, $2;", (1.0, 1e6), 0x3C007BFF),
        ("cvt.rna.tf32.f32 $0, $1;", (1 + 2.0**-11,), bits(1 + 2.0**-10)),
        ("cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", (1.0, 1e6), 0x387E),
        ("cvt.rn.f16x2.e5m2x2 $0, $1;", (0x3C40,), 0x3C004000),
        ("cvt.rni.s32.f32 $0, $1;", (-2.5,), 0xFFFFFFFE),
        ("cvt.rzi.u32.f32 $0, $1;", (-2.5,), 0),
        ("cvt.rn.f32.s32 $0, $1;", (0xFFFFFFFF,), bits(-1.0)),
        ("cvt.rp.satfinite.ue8m0x2.f32 $0, $1, $2;", (3.0, 1.0), 0x817F),
        ("cvt.rn.f16x2.e2m1x2 $0, $1;", (0x2F,), 0x3C00C600),
        ("add.f16x2 $0, $1, $2;", (0x3C003C00, 0x40003C00), 0x42004000),
        ("mul.rn.bf16x2 $0, $1, $2;", (0x3F803F80, 0x40003F80), 0x40003F80),
        ("{ .reg .b16 a, b; mov.b32 {a, b}, $1; mov.b32 $0, {b, a}; }", (0x12345678,), 0x56781234),
        ("mov.u32 $0, 5", (), 5),
    ],
)
def test_an_instruction_follows_the_ptx_isa(text: str, given: tuple[Any, ...], expected: int) -> None:
    assert f"{run_text(text, *given):#x}" == f"{expected:#x}"


@triton.jit
def larger(first, second):
    return tl.inline_asm_elementwise("max.s32 $0, $1, $2;", "=r,r,r", [first, second], tl.int32, is_pure=True, pack=1)


@triton.jit
def row_maximum_kernel(x, out, N: tl.constexpr):
    rows, columns = tl.arange(0, 4)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + tl.arange(0, 4), tl.reduce(tl.load(x + rows * N + columns), 1, larger))


def test_a_text_combines_the_elements_of_a_reduction(gpu: Gpu) -> None:
    x, out = torch.arange(32, dtype=torch.int32).reshape(4, 8) % 7, torch.zeros(4, dtype=torch.int32)
    row_maximum_kernel[(1,)](x, out, 8)
    assert out.tolist() == x.amax(1).tolist()
    assert gpu.memory == []


@triton.jit
def unknown_kernel(x):
    value = tl.load(x)
    made = tl.inline_asm_elementwise(
        "vadd4.u32.u32.u32 $0, $1, $1, 0;", "=r,r", [value], tl.int32, is_pure=True, pack=1
    )
    tl.store(x, made)


@triton.jit
def memory_kernel(x):
    tl.store(x, tl.inline_asm_elementwise("mov.b32 $0, [0];", "=r", [], tl.int32, is_pure=False, pack=1))


@pytest.mark.parametrize(
    ("kernel", "what"),
    [
        (unknown_kernel, "the PTX instruction vadd4.u32.u32.u32"),
        (memory_kernel, "the PTX instruction mov.b32 on memory"),
    ],
)
def test_an_unknown_instruction_is_named(gpu: Gpu, kernel: Any, what: str) -> None:
    x = torch.zeros(1, dtype=torch.int32)
    assert gpu.unsupported(lambda: kernel[(1,)](x)).what == f"tt.elementwise_inline_asm: {what}"
