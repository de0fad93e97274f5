"""Layouts of TTGIR, compared with the linear layouts that Triton itself makes of them."""

from typing import Any

import pytest
from triton._C.libtriton import gluon_ir, ir

from harness.engines.virtual.synchronisation.tile_layouts import layout_of, owners_of
from harness.errors import CannotExecute

SHAPES = ((8, 128), (16, 16), (256, 4), (1, 1), (64, 64))
BLOCKED = (
    ([1, 4], [2, 16], [4, 1], [1, 0]),
    ([4, 1], [32, 1], [2, 2], [0, 1]),
    ([2, 2], [8, 4], [2, 4], [0, 1]),
)
PRODUCTS = (([2, 0], [2, 2], [16, 8]), ([3, 0], [4, 2], [16, 32, 16]), ([3, 0], [8, 1], [16, 256, 16]))


@pytest.fixture(scope="module")
def context() -> Any:
    """Kept by its fixture: the builder does not keep it alive."""
    made = ir.context()
    ir.load_dialects(made)
    return made


@pytest.fixture(scope="module")
def builder(context: Any) -> Any:
    return gluon_ir.GluonOpBuilder(context)


def blocked_text(parts: tuple[list[int], ...]) -> str:
    names = ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")
    return f"#ttg.blocked<{{{', '.join(f'{name} = {part}' for name, part in zip(names, parts, strict=True))}}}>"


def check(builder: Any, text: str, attribute: Any, shape: tuple[int, ...]) -> None:
    ours, triton = layout_of(text).fitted(shape), builder.to_linear_layout(attribute, list(shape))
    assert [list(base) for base in ours.lanes] == triton.lane_bases
    assert [list(base) for base in ours.warps] == triton.warp_bases
    assert sorted(list(base) for base in ours.registers if any(base)) == sorted(filter(any, triton.reg_bases))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("parts", BLOCKED)
def test_blocked_and_sliced_layouts_are_those_of_triton(
    builder: Any, parts: tuple[list[int], ...], shape: tuple[int, int]
) -> None:
    text, attribute = blocked_text(parts), builder.get_blocked_layout(*parts, [])
    check(builder, text, attribute, shape)
    for axis in (0, 1):
        sliced = f"#ttg.slice<{{dim = {axis}, parent = {text}}}>"
        check(builder, sliced, builder.get_slice_layout(axis, attribute), (shape[1 - axis],))


@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize(("version", "warps", "instruction"), PRODUCTS)
def test_layouts_of_products_are_those_of_triton(
    builder: Any, version: list[int], warps: list[int], instruction: list[int], shape: tuple[int, int]
) -> None:
    text = (
        f"#ttg.nvidia_mma<{{versionMajor = {version[0]}, versionMinor = 0, warpsPerCTA = {warps}, "
        f"instrShape = {instruction}}}>"
    )
    check(builder, text, builder.get_mma_layout(version, warps, [], instruction), shape)


@pytest.mark.parametrize("shape", [(64, 64), (128, 256)])
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("size", [16, 32])
def test_layouts_of_amd_products_are_those_of_triton(
    builder: Any, size: int, is_transposed: Any, shape: tuple[int, int]
) -> None:
    instruction, warps = [size, size, 128 // size], [2, 2]
    text = (
        f"#ttg.amd_mfma<{{version = 3, warpsPerCTA = {warps}, instrShape = {instruction}, "
        f"isTransposed = {str(is_transposed).lower()}}}>"
    )
    check(builder, text, builder.get_amd_mfma_layout(3, warps, instruction, is_transposed, [], [1, 1], 32), shape)


def test_one_copy_is_stored_and_all_are_loaded() -> None:
    layout = layout_of(blocked_text(([1], [32], [4], [0])))
    assert layout.warps_of((64,), stores=False).tolist() == [0b0101] * 32 + [0b1010] * 32
    assert layout.warps_of((64,), stores=True).tolist() == [0b0001] * 32 + [0b0010] * 32


MODULE = """
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [2], order = [0]}>
#linear = #ttg.linear<{register = [], lane = [[2], [4], [8], [16], [32]], warp = [[1]], block = []}>
#loc = loc(unknown)
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32} {
    %1 = tt.load %0 {other = 1 : i32} : tensor<64x!tt.ptr<f32>, #blocked> loc(#loc1)
    %2 = tt.load %0 : tensor<64x!tt.ptr<f32>, #linear> loc(#loc2)
    %3 = ttg.async_copy_global_to_local %0, %m : tensor<64x!tt.ptr<f32>, #linear> -> <64xf32, #shared> loc(#loc1)
    tt.store %p, %4 : !tt.ptr<f32> loc(#loc3)
}
#loc1 = loc("ttir":7:0)
#loc2 = loc("ttir":8:0)
#loc3 = loc("ttir":9:0)
"""


def test_owners_are_read_for_each_location() -> None:
    owners = owners_of(MODULE)
    assert sorted(owners) == ['loc("ttir":7:0)', 'loc("ttir":8:0)', 'loc("ttir":9:0)']
    both, linear, scalar = (owners[name] for name in sorted(owners))
    assert linear.warps.tolist() == [0b01, 0b10] * 32
    assert both.warps.tolist() == [0b01, 0b11] * 16 + [0b11, 0b10] * 16
    assert (scalar.shape, scalar.warps.tolist()) == ((), [0b01])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (MODULE.replace("#ttg.linear", "#ttg.dot_op"), "the layout #ttg.dot_op"),
        (MODULE.replace('ctas" = 1', 'ctas" = 2'), "a program of several CTAs"),
        (MODULE + "ttg.warp_specialize()", "a kernel whose warps have different tasks"),
    ],
)
def test_what_is_unknown_is_named(text: str, reason: str) -> None:
    with pytest.raises(CannotExecute, match=reason):
        owners_of(text)
