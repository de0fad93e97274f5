"""Planted: bugs of host code that show on AMD's GPUs alone, each a kind that libraries have had."""

from harness.suite import Dim, DType, beside, op, tensor, tokens

ORACLES = {
    "rows_by_warps": "unwritten",
    "warps_of_32_lanes": "resources",
    "product_in_96_kib": "resources",
    "range_of_other_format": "float64-values",
    "mean_of_a_block": "wrong-value",
}
"""The oracle that finds each on an AMD GPU of architecture gfx942."""

FP32 = (DType.FP32,)
ROWS = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=ROWS, dtypes=FP32)
def rows_by_warps(x):
    return beside(__file__, "kernels/amd_paths.py").double_by_warps(x.contiguous())


@op(dims={"T": tokens(256, grows=False)}, inputs=ROWS, dtypes=FP32)
def warps_of_32_lanes(x):
    return beside(__file__, "kernels/amd_paths.py").double_in_one_block(x.contiguous(), num_warps=32)


@rows_by_warps.reference
@warps_of_32_lanes.reference
def double(x):
    return x + x


@op(
    dims={"T": tokens(128, grows=False), "D": Dim(low=128, high=512, choices=(128, 512)), "O": Dim(low=128, high=128)},
    inputs={"x": tensor("T", "D", grad=False), "w": tensor("D", "O", grad=False)},
    dtypes=(DType.FP16,),
)
def product_in_96_kib(x, w):
    return beside(__file__, "kernels/amd_paths.py").product(x.contiguous(), w.contiguous())


@product_in_96_kib.reference
def product(x, w):
    return x @ w


@op(dims={"T": tokens(256, grows=False)}, inputs=ROWS, dtypes=FP32)
def range_of_other_format(x):
    return beside(__file__, "kernels/amd_paths.py").peak_of_quantised(x.contiguous())


@range_of_other_format.reference
def peak(x):
    return x.abs().amax()


@op(
    dims={"T": tokens(32, grows=False), "D": Dim(low=96, high=256, choices=(96, 256))},
    inputs={"x": tensor("T", "D", grad=False)},
    dtypes=FP32,
)
def mean_of_a_block(x):
    return beside(__file__, "kernels/amd_paths.py").normalise(x.contiguous())


@mean_of_a_block.reference
def normalised(x):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
