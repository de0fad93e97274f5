"""What unsloth's kernels need from the rest of the package: the file that `stubs` of an op names."""

import torch

DEVICE = {"DEVICE_TYPE": "cuda" if torch.version.hip is None else "hip", "DEVICE_COUNT": 1}

MODULES = {
    "unsloth": DEVICE,
    "unsloth.device_type": {**DEVICE, "is_hip": lambda: torch.version.hip is not None},
    "pandas": {},
}
IMPORTED = (
    "unsloth.kernels.moe.grouped_gemm.interface",
    "unsloth.kernels.moe.grouped_gemm.kernels.tuning",
)
