"""Planted: bugs of host code that show on Intel's GPUs alone, each a kind that libraries have."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLES = {
    "buffer_on_cuda": "completes",
    "programs_by_sms": "completes",
    "option_of_nvidia": "completes",
    "cluster_of_two": "completes",
    "rows_of_half_a_block": "unwritten",
    "scaled_by_engines": "wrong-value",
}
"""The oracle that finds each on an Intel GPU."""

DIMS = {"T": tokens(256, grows=False)}
ROWS = {"x": tensor("T", grad=False)}
FP32 = (DType.FP32,)


@op(dims=DIMS, inputs=ROWS, dtypes=FP32)
def buffer_on_cuda(x):
    return beside(__file__, "kernels/intel_paths.py").double_into_cuda(x.contiguous())


@op(dims=DIMS, inputs=ROWS, dtypes=FP32)
def programs_by_sms(x):
    return beside(__file__, "kernels/intel_paths.py").double_by_sms(x.contiguous())


@op(dims=DIMS, inputs=ROWS, dtypes=FP32)
def option_of_nvidia(x):
    return beside(__file__, "kernels/intel_paths.py").double_with(x.contiguous(), maxnreg=128)


@op(dims=DIMS, inputs=ROWS, dtypes=FP32)
def cluster_of_two(x):
    return beside(__file__, "kernels/intel_paths.py").double_with(x.contiguous(), num_ctas=2)


@op(dims=DIMS, inputs=ROWS, dtypes=FP32)
def rows_of_half_a_block(x):
    return beside(__file__, "kernels/intel_paths.py").double_in_smaller_blocks(x.contiguous())


@op(dims=DIMS, inputs=ROWS, dtypes=FP32)
def scaled_by_engines(x):
    return beside(__file__, "kernels/intel_paths.py").double_of_sums(x.contiguous())


@buffer_on_cuda.reference
@programs_by_sms.reference
@option_of_nvidia.reference
@cluster_of_two.reference
@rows_of_half_a_block.reference
@scaled_by_engines.reference
def double(x):
    return x + x
