"""What unsloth's grouped products need from the rest of the package: the file that `stubs` of an op names."""

MODULES = {"unsloth": {"DEVICE_TYPE": "cuda"}, "pandas": {}}
IMPORTED = (
    "unsloth.kernels.moe.grouped_gemm.interface",
    "unsloth.kernels.moe.grouped_gemm.kernels.tuning",
)
