"""The vectors of accesses are those of Triton's compiler, and hints are told apart by what they do to them."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, ARG001, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import re
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from harness.engines.ttir.axis_claims import accesses, claims_of, hints_of
from harness.engines.ttir.parser import parse
from harness.engines.ttir.wide_accesses import vector_of

LANES = 1024
"""Eight for each thread of four warps: more than any vector has."""
ALIGNED = [["tt.divisibility", 16]]


@triton.jit
def moved(x, y, n, s, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + s + o))


@triton.jit
def wrapped(x, y, n, s, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + tl.max_contiguous(tl.multiple_of(o % n, B), B)))


@triton.jit
def carried(x, y, n, s, B: tl.constexpr):
    o = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    x += s
    for _ in range(n):
        x = tl.multiple_of(x, 16)
        total += tl.load(x + o)
        x += s
    tl.store(y + o, total)


@triton.jit
def yielded(x, y, n, s, B: tl.constexpr):
    o = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for _ in range(n):
        total += tl.load(x + o)
        x = tl.multiple_of(x + s, 16)
    tl.store(y + o, total)


@triton.jit
def chosen(x, y, n, s, B: tl.constexpr):
    o = tl.arange(0, B)
    if n > 5:  # noqa: SIM108 - a conditional of two blocks
        first = s
    else:
        first = s * 2
    first = tl.multiple_of(first, 4)
    tl.store(y + o, tl.load(x + first + o))


@triton.jit
def an_argument(x, y, n, s, B: tl.constexpr):
    s = tl.multiple_of(s, 4)
    o = tl.arange(0, B)
    tl.store(y + o, tl.load(x + s + o))


@triton.jit
def a_scalar(x, y, n, s, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y + o, tl.load(x + tl.multiple_of(tl.program_id(0) * s, 2) + o))


@triton.jit
def a_mask(x, y, n, s, B: tl.constexpr):
    o = tl.arange(0, B)
    inside = tl.max_constancy(o < n, 2)
    tl.store(y + o, tl.load(x + o, mask=inside, other=0.0), mask=o < s)


@triton.jit
def rows(x, y, n, s, B: tl.constexpr):
    o = tl.arange(0, B)
    row = tl.multiple_of(tl.max_constancy(o // n, 16), 4)
    tl.store(y + o, tl.load(x + row * s + o))


@triton.jit
def strided(x, y, n, s, B: tl.constexpr):
    at = tl.max_contiguous(tl.multiple_of(tl.arange(0, 64) % n, 64), 64)
    columns = tl.arange(0, 16)
    out = tl.arange(0, 64)[:, None] * 16 + columns[None, :]
    tl.store(y + out, tl.load(x + at[:, None] * s + columns[None, :]))


@triton.jit
def divided(x, y, n, s, B: tl.constexpr):
    o = tl.multiple_of(tl.arange(0, B) + s, 8)
    tl.store(y + tl.arange(0, B), tl.load(x + (o // 4) * 4 + o % 4))


KERNELS = (moved, wrapped, carried, yielded, chosen, an_argument, a_scalar, a_mask, rows, strided, divided)


@pytest.mark.both
@pytest.mark.nightly
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_the_vectors_of_an_access_are_those_of_the_machine_code(kernel: Any) -> None:
    signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "s": "i32", "B": "constexpr"}
    source = ASTSource(kernel, signature, {(4,): LANES}, {(0,): ALIGNED, (1,): ALIGNED})
    built = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    function = parse(built.asm["ttir"]).kernel
    claims = claims_of(function, frozenset(hints_of(function)))
    expected = {
        ("ld" if operation.name == "tt.load" else "st", vector_of(claims, operation, mask).lanes)
        for operation, mask in accesses(function)
    }
    instructions = re.findall(r"(ld|st)\.global(?:\.v(\d))?", built.asm["ptx"])
    assert {(direction, int(width or 1)) for direction, width in instructions} == expected
