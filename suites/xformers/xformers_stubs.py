"""What xFormers' kernels and launchers need from the rest of the package: the file that `stubs` of an op names."""

MODULES = {"xformers": {"_is_triton_available": lambda: True}}
IMPORTED = (
    "xformers.ops._triton",
    "xformers.ops.indexing",
    "xformers.ops.rmsnorm",
    "xformers.ops.rope_padded",
    "xformers.triton.importing",
)
