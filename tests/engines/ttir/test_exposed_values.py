"""Variants of a kernel that store intermediate values."""

from pathlib import Path

import pytest
import triton
from triton.backends.compiler import GPUTarget

from harness.engines.ttir.exposed_values import Exposable, ExposableKernel
from harness.engines.ttir.parser import parse

TTIR = """
module {
  tt.func public @sums(%x: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %n: i32) attributes {noinline = false} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i64
    %low = arith.constant 0 : i64
    %high = arith.constant 9 : i64
    %none = arith.constant dense<0.0> : tensor<4x2xf32>
    %lane = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %base = tt.splat %x : !tt.ptr<f16> -> tensor<8x!tt.ptr<f16>>
    %at = tt.addptr %base, %lane : tensor<8x!tt.ptr<f16>>, tensor<8xi32>
    %half = tt.load %at : tensor<8x!tt.ptr<f16>>
    %byte = tt.fp_to_fp %half, rounding = rtne : tensor<8xf16> -> tensor<8xf8E5M2>
    %is_small = arith.cmpi slt, %n, %zero : i32
    %tile = tt.reshape %half : tensor<8xf16> -> tensor<4x2xf16>
    %wide = arith.extf %tile : tensor<4x2xf16> to tensor<4x2xf32>
    %sum = scf.for %i = %low to %high step %one iter_args(%total = %none) -> (tensor<4x2xf32>)  : i64 {
      %more = arith.addf %total, %wide : tensor<4x2xf32>
      scf.yield %more : tensor<4x2xf32>
    }
    %row = "tt.reduce"(%sum) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    }) : (tensor<4x2xf32>) -> tensor<4xf32>
    tt.return
  }
}
"""
NAMES = ["%half", "%byte", "%is_small", "%tile", "%wide", "%more", "%sum", "%row"]


def values(grid: tuple[int, int, int] = (1, 1, 1)) -> tuple[ExposableKernel, dict[str, Exposable]]:
    kernel = ExposableKernel(TTIR, grid)
    return kernel, {value.name: value for value in kernel.values()}


def test_values_of_numbers_are_exposable_in_the_order_of_their_computation() -> None:
    _, found = values()
    assert sorted(found, key=lambda name: found[name].moment(0)) == NAMES


def test_a_value_in_a_loop_is_earlier_than_the_result_of_the_loop() -> None:
    _, found = values()
    more, total = found["%more"], found["%sum"]
    assert (more.slots, more.iterations(3)) == (8, (3,))
    assert more.moment(2) < more.moment(3) < total.moment(0)


def test_a_value_with_too_many_copies_is_not_exposed() -> None:
    _, found = values((1 << 17, 1, 1))
    assert "%more" not in found
    assert "%half" in found


def test_the_variant_has_a_parameter_and_a_store_for_each_value() -> None:
    kernel, found = values((2, 3, 1))
    variant = parse(kernel.exposing(list(found.values()))).kernel
    stores = [operation for operation in variant.body.all_operations() if operation.name == "tt.store"]
    assert len(stores) == len(NAMES)
    pointees = [str(parameter.type.pointee) for parameter in variant.parameters[2:]]
    assert pointees == ["f16", "i8", "i8", "f16", "f32", "f32", "f32", "f32"]


@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 3, 4)])
def test_triton_compiles_the_variant(tmp_path: Path, grid: tuple[int, int, int]) -> None:
    kernel, found = values(grid)
    path = tmp_path / "sums.ttir"
    path.write_text(kernel.exposing(list(found.values())))
    built = triton.compile(str(path), target=GPUTarget("cuda", 90, 32))
    assert built.asm["ptx"].count("st.global") >= len(NAMES)
