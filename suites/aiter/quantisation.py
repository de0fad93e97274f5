"""Quantisation of aiter: numbers of eight bits with a scale for a tensor or row, and the formats MXFP8 and MXFP4.

Rows of integers are truncated.  Results are compared as the numbers that they stand for, with their scales.
"""

from harness.suite import Dim, Draw, DType, beside, built, dequantised, op, tensor, tokens, width

LIBRARY = {"requires": ("amd-aiter",), "stubs": {"aiter": "aiter_stubs.py"}}
STUBS = "aiter_stubs.py"
BLOCK = 32
"""How many neighbours share a scale in the MX formats."""
EIGHT_BITS = {
    **LIBRARY,
    "dims": {"T": tokens(512), "D": width(2048)},
    "options": {"kind": ("int8", "fp8")},
    "contiguous": "rows",
    "waives": frozenset({"precision"}),  # a number between two steps goes to either
}
X = tensor("T", "D", grad=False)


def element_type(kind):
    """Return the type of torch; GPUs disagree about the one of eight bits."""
    import torch

    return torch.int8 if kind == "int8" else beside(__file__, STUBS).DTYPES.fp8


def most(kind):
    """Return the largest number of a type of eight bits."""
    import torch

    return 127.0 if kind == "int8" else torch.finfo(element_type(kind)).max


def sufficient(x, kind):
    """Return a scale by which no number leaves the range of the type."""
    largest = x.float().nan_to_num(0, 0, 0).abs().max()
    return (largest.clamp(min=1e-6) / (most(kind) - 2)).reshape(1)


def steps(x, scale, kind):
    """Return the steps of eight bits that stand for x."""
    ratio = x / scale
    return ratio.trunc() if kind == "int8" else ratio.to(element_type(kind)).to(x.dtype)


@op(**EIGHT_BITS, inputs={"x": X, "scale": built(1, by=sufficient, dtype=DType.FP32)})
def by_given_scale(x, scale, kind):
    import torch
    from aiter.ops.triton.quant.quant import static_per_tensor_quant_fp8_i8

    y = torch.empty(x.shape, dtype=element_type(kind), device=x.device)
    return static_per_tensor_quant_fp8_i8(y, x, scale).float() * scale


@by_given_scale.reference
def by_given_scale_reference(x, scale, kind):
    scale = scale.to(x.dtype)
    return steps(x, scale, kind) * scale


@op(**EIGHT_BITS, inputs={"x": X})
def by_scale_of_tensor(x, kind):
    import torch
    from aiter.ops.triton.quant.quant import dynamic_per_tensor_quant_fp8_i8

    y, scale = torch.empty(x.shape, dtype=element_type(kind), device=x.device), x.new_zeros(1, dtype=torch.float32)
    dynamic_per_tensor_quant_fp8_i8(y, x, scale)
    return y.float() * scale, scale


@by_scale_of_tensor.reference
def by_scale_of_tensor_reference(x, kind):
    scale = (x.abs().max() / most(kind)).reshape(1)
    return steps(x, scale, kind) * scale, scale


@op(**EIGHT_BITS, inputs={"x": X}, apart=("T",))
def by_scale_of_row(x, kind):
    import torch
    from aiter.ops.triton.quant.quant import dynamic_per_token_quant_fp8_i8

    y = torch.empty(x.shape, dtype=element_type(kind), device=x.device)
    scale = x.new_empty(len(x), dtype=torch.float32)
    dynamic_per_token_quant_fp8_i8(y, x, scale)
    return y.float() * scale[:, None], scale


@by_scale_of_row.reference
def by_scale_of_row_reference(x, kind):
    scale = x.abs().amax(-1) / most(kind)
    return steps(x, scale[:, None], kind) * scale[:, None], scale


def exponents(magnitude, largest):
    """Return the powers of two by which magnitudes, rounded, fit below 2^(largest + 1)."""
    import torch

    mantissa, exponent = torch.frexp(magnitude)
    rounded = exponent - 1 + (mantissa >= 0.875)
    return torch.where(magnitude > 0, (rounded - largest).clamp(-127, 127), -127)


def nearest_fp4(x):
    """Round to the nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6; of two as near, to the even one of their order."""
    import torch

    numbers = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=x.dtype)
    middles = (numbers[1:] + numbers[:-1]) / 2
    size = x.abs()[..., None]
    order = (size > middles[0::2]).sum(-1) + (size >= middles[1::2]).sum(-1)
    return x.sign() * numbers[order]


def in_blocks(x, largest, nearest):
    """Return what the quantised blocks stand for, and their scales."""
    import torch

    magnitude = x.unflatten(-1, (-1, BLOCK)).abs().amax(-1)
    scale = torch.ldexp(1 + magnitude * 0, exponents(magnitude, largest))
    of_each = scale.repeat_interleave(BLOCK, -1)
    return nearest(x / of_each) * of_each, scale


def restored(y, scale, packed=None):
    """Return what the library's bytes stand for, and its scales."""
    return dequantised(y, scale, packed=packed, group=BLOCK).float(), (scale.float() - 127).exp2()


IN_BLOCKS = {
    **LIBRARY,
    "dims": {"T": tokens(256), "N": Dim(low=1, high=40)},
    "dtypes": (DType.BF16, DType.FP16),
    "apart": ("T",),
    "waives": frozenset({"precision"}),
}


@op(**IN_BLOCKS, inputs={"x": tensor("T", "32*N", grad=False)})
def mxfp4(x):
    from aiter.ops.triton.quant.quant import dynamic_mxfp4_quant

    y, scale = dynamic_mxfp4_quant(x)
    return restored(y, scale, "fp4")


@mxfp4.reference
def mxfp4_reference(x):
    return in_blocks(x, 2, nearest_fp4)


@op(**IN_BLOCKS, inputs={"x": tensor("T", "32*N", grad=False)})
def mxfp8(x):
    from aiter.ops.triton.quant.quant import dynamic_mxfp8_quant

    y, scale = dynamic_mxfp8_quant(x)
    return restored(y, scale)


@mxfp8.reference
def mxfp8_reference(x):
    import torch

    return in_blocks(x, 8, lambda ratio: ratio.clamp(-448, 448).to(torch.float8_e4m3fn).to(x.dtype))


@op(
    **IN_BLOCKS,
    inputs={"x": tensor("T", "64*N", grad=False)},
    options={"activation": ("silu", "gelu", "gelu_tanh")},
    contiguous="rows",
)
def gate_in_mxfp4(x, activation):
    from aiter.ops.triton.activation import act_mul_and_mxfp4_quant

    y, scale = act_mul_and_mxfp4_quant(x, activation)
    return restored(y, scale, "fp4")


@gate_in_mxfp4.reference
def gate_in_mxfp4_reference(x, activation):
    left, right = x.chunk(2, -1)
    return in_blocks(beside(__file__, "rows.py").activated(left, activation) * right, 2, nearest_fp4)


@op(
    **IN_BLOCKS,
    inputs={"x": tensor("T", "256*N", grad=False)},
    options={"activation": ("silu", "gelu", "gelu_tanh")},
)
def gate_in_groups_of_fp8(x, activation):
    """Groups of 128 numbers have a scale."""
    from aiter.ops.triton.activation import act_mul_and_fp8_group_quant

    y, scale = act_mul_and_fp8_group_quant(x, activation, 128, element_type("fp8"))
    return dequantised(y, scale, group=128).float(), scale


@gate_in_groups_of_fp8.reference
def gate_in_groups_of_fp8_reference(x, activation):
    left, right = x.chunk(2, -1)
    y = beside(__file__, "rows.py").activated(left, activation) * right
    scale = y.unflatten(-1, (-1, 128)).abs().amax(-1).clamp(min=1e-10) / most("fp8")
    return dequantised(steps(y, scale.repeat_interleave(128, -1), "fp8"), scale, group=128), scale


@op(**IN_BLOCKS, inputs={"x": tensor("T", "32*N", grad=False), "weight": tensor("32*N", grad=False)}, contiguous="rows")
def rms_norm_in_mxfp4(x, weight):
    from aiter.ops.triton.quant.fused_mxfp4_quant import fused_rms_mxfp4_quant

    (y, scale), *_ = fused_rms_mxfp4_quant(x, weight, 1e-5)
    return restored(y, scale, "fp4")


@rms_norm_in_mxfp4.reference
def rms_norm_in_mxfp4_reference(x, weight):
    return in_blocks(beside(__file__, "norm.py").rms(x, weight), 2, nearest_fp4)


@op(
    **LIBRARY,
    dims={"T": tokens(256), "D": width(1024)},
    inputs={"x": tensor("T", "2*D", grad=False), "scale": tensor(1, grad=False, draw=Draw.POSITIVE, dtype=DType.FP32)},
    dtypes=(DType.BF16, DType.FP16),
    apart=("T",),
    waives=frozenset({"precision"}),
)
def gate_in_fp8(x, scale):
    from aiter.ops.triton.quant.fused_fp8_quant import fused_silu_mul_fp8_per_tensor_static_quant

    return fused_silu_mul_fp8_per_tensor_static_quant(x, scale, element_type("fp8")).float() * scale


@gate_in_fp8.reference
def gate_in_fp8_reference(x, scale):
    left, right = x.chunk(2, -1)
    y = (left * left.sigmoid() * right / scale).clamp(-most("fp8"), most("fp8"))
    return steps(y, 1, "fp8") * scale
