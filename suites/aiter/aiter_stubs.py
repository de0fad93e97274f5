"""What aiter's Triton kernels need from the rest of the package, which ROCm compiles at its first use.

The file that `stubs` of an op names.
"""

from types import SimpleNamespace

import torch


def architecture():
    """Return the name of the architecture, such as gfx942."""
    return getattr(torch.cuda.get_device_properties(), "gcnArchName", "").partition(":")[0]


def torch_compile_guard(**settings):
    """Leave a launcher as it is: it needs no operator of torch here."""
    del settings
    return lambda function: function


DTYPES = SimpleNamespace(
    fp8=torch.float8_e4m3fnuz if architecture() == "gfx942" else torch.float8_e4m3fn,
    fp8_e8m0=torch.uint8,
    fp4x2=torch.uint8,
    fp16=torch.float16,
    bf16=torch.bfloat16,
    fp32=torch.float32,
    i8=torch.int8,
    u8=torch.uint8,
    i32=torch.int32,
)

MODULES = {
    "aiter": {"dtypes": DTYPES},
    "aiter.utility": {"dtypes": DTYPES},
    "aiter.jit.utils.torch_guard": {"torch_compile_guard": torch_compile_guard},
    "aiter.jit.utils.chip_info": {
        "get_gfx": architecture,
        "get_cu_num": lambda: torch.cuda.get_device_properties().multi_processor_count,
    },
}
IMPORTED = ("aiter.ops.triton.*",)
