"""Quantisation of bitsandbytes by blocks, through its Triton backend: to 4 and to 8 bits, and back.

A block is scaled by its largest magnitude.  Each element becomes the nearest level of a table.
"""

from harness.suite import Dim, Draw, DType, integers, op, tensor

LIBRARY = {"requires": ("bitsandbytes",), "stubs": {"bitsandbytes": "bitsandbytes_stubs.py"}}
FP4 = (0.0, 0.005208333333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
"""The magnitudes of the first eight codes; the others have the other sign."""
NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
LEVELS = {"fp4": (*FP4, *(-level for level in FP4)), "nf4": NF4}
ELEMENTS = Dim(low=1, high=6000)


@op(
    **LIBRARY,
    dims={"N": ELEMENTS},
    inputs={"x": tensor("N", grad=False)},
    options={"kind": ("nf4", "fp4"), "blocksize": (64, 128, 256)},
)
def four_bits_and_back(x, kind, blocksize):
    from bitsandbytes.backends.triton.ops import dequantize_4bit, quantize_4bit

    codes, largest = quantize_4bit(x.contiguous(), blocksize, kind, codes_type())
    return dequantize_4bit(codes, largest, blocksize, kind, x.shape, x.dtype), largest[: blocks_of(x, blocksize)]


@four_bits_and_back.reference
def four_bits_and_back_reference(x, kind, blocksize):
    return nearest_levels(x, LEVELS[kind], blocksize)


@op(
    **LIBRARY,
    dims={"N": ELEMENTS},
    inputs={
        "codes": integers("N//2+N-N//2*2", high=256),
        "largest": tensor("N//64+1", grad=False, dtype=DType.FP32, draw=Draw.POSITIVE),
    },
    options={"kind": ("nf4", "fp4"), "blocksize": (64, 128, 256), "output_dtype": ("float32", "bfloat16", "float16")},
)
def from_four_bits(codes, largest, N, kind, blocksize, output_dtype):
    from bitsandbytes.backends.triton.ops import dequantize_4bit

    return dequantize_4bit(codes.to(codes_type()), largest, blocksize, kind, (N,), type_named(output_dtype))


@from_four_bits.reference
def from_four_bits_reference(codes, largest, N, kind, blocksize):
    levels = largest.new_tensor(LEVELS[kind])
    halves = levels[codes // 16], levels[codes % 16]
    return stacked(halves).flatten()[:N] * largest.repeat_interleave(blocksize)[:N]


@op(
    **LIBRARY,
    dims={"M": Dim(low=1, high=32), "N": Dim(low=1, high=48), "K": Dim(low=1, high=4)},
    inputs={
        "x": tensor("M", "64*K", grad=False),
        "codes": integers("32*N*K", high=256),
        "largest": tensor("N*K", grad=False, dtype=DType.FP32, draw=Draw.POSITIVE),
    },
    options={"kind": ("nf4", "fp4")},
)
def product_with_four_bits(x, codes, largest, N, K, kind):
    from bitsandbytes.backends.triton.ops import gemv_4bit

    table = largest.new_tensor(LEVELS[kind])
    return gemv_4bit(x, codes.to(codes_type())[:, None], (N, 64 * K), largest, table, 64)


@product_with_four_bits.reference
def product_with_four_bits_reference(x, codes, largest, N, K, kind):
    levels = x.new_tensor(LEVELS[kind])
    weights = stacked((levels[codes // 16], levels[codes % 16])).flatten() * largest.to(x.dtype).repeat_interleave(64)
    return x @ weights.view(N, 64 * K).T


@op(**LIBRARY, dims={"N": ELEMENTS}, inputs={"x": tensor("N", grad=False)}, options={"blocksize": (64, 256, 1024)})
def eight_bits_and_back(x, blocksize):
    from bitsandbytes.backends.triton.ops import dequantize_blockwise, quantize_blockwise

    table = evenly_spaced(x.float())
    codes, largest = quantize_blockwise(x, table, blocksize)
    return dequantize_blockwise(codes, largest, table, blocksize, x.dtype), largest


@eight_bits_and_back.reference
def eight_bits_and_back_reference(x, blocksize):
    return nearest_levels(x, evenly_spaced(x).tolist(), blocksize)


def nearest_levels(x, levels, blocksize):
    """Return each element as the nearest level times its block's largest magnitude, and those of all blocks."""
    import torch

    padded = torch.nn.functional.pad(x, (0, -len(x) % blocksize)).view(-1, blocksize)
    largest = padded.abs().amax(1)
    table = x.new_tensor(levels)
    scaled = padded / largest.where(largest > 0, torch.ones_like(largest))[:, None]
    nearest = (scaled[..., None] - table).abs().argmin(-1)
    return (table[nearest] * largest[:, None]).flatten()[: len(x)], largest


def evenly_spaced(like):
    import torch

    return torch.linspace(-1, 1, 256, dtype=like.dtype)


def blocks_of(x, blocksize):
    return -(-len(x) // blocksize)


def codes_type():
    import torch

    return torch.uint8


def type_named(name):
    import torch

    return getattr(torch, name)


def stacked(parts):
    import torch

    return torch.stack(parts, 1)
