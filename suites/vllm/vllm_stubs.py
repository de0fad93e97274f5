"""What vLLM's kernels and their launchers need from the rest of the package: the file that `stubs` of an op names."""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


class Capability(NamedTuple):
    """A compute capability, by which launchers look up their configs."""

    major: int
    minor: int

    def as_version_str(self):
        return f"{self.major}.{self.minor}"

    def to_int(self):
        return 10 * self.major + self.minor


def amd_architecture():
    """Return the architecture of an AMD GPU, such as gfx942; empty for one of NVIDIA."""
    return torch.cuda.get_device_properties().gcnArchName.partition(":")[0] if torch.version.hip else ""


def is_one_of(*architectures):
    """Return the function that asks for the beginning of the architecture's name."""
    return lambda: amd_architecture().startswith(architectures)


class Platform:
    """The emulated GPU, whose vendor and properties torch answers."""

    device_type = "cuda"
    device_name = "cuda"
    simple_compile_backend = "inductor"

    def is_cuda(self):
        return torch.version.hip is None

    def is_cuda_alike(self):
        return True

    def is_rocm(self):
        return torch.version.hip is not None

    def is_xpu(self):
        return False

    def is_cpu(self):
        return False

    def is_tpu(self):
        return False

    def is_out_of_tree(self):
        return False

    def fp8_dtype(self):
        return torch.float8_e4m3fnuz if self.is_fp8_fnuz() else torch.float8_e4m3fn

    def is_fp8_fnuz(self):
        return amd_architecture().startswith("gfx94")

    def is_navi(self):
        return amd_architecture().startswith("gfx1")

    def supports_mx(self):
        return amd_architecture().startswith("gfx95")

    def has_device_capability(self, capability, device_id=0):
        major, minor = torch.cuda.get_device_capability(device_id)
        asked = capability if isinstance(capability, int) else 10 * capability[0] + capability[1]
        return 10 * major + minor >= asked

    def is_device_capability(self, capability, device_id=0):
        major, minor = torch.cuda.get_device_capability(device_id)
        asked = capability if isinstance(capability, int) else 10 * capability[0] + capability[1]
        return 10 * major + minor == asked

    def is_device_capability_family(self, capability, device_id=0):
        major, minor = torch.cuda.get_device_capability(device_id)
        return (10 * major + minor) // 10 == capability // 10

    def num_compute_units(self, device_id=0):
        return torch.cuda.get_device_properties(device_id).multi_processor_count

    def get_device_capability(self, device_id=0):
        return Capability(*torch.cuda.get_device_capability(device_id))

    def get_device_name(self, device_id=0):
        return torch.cuda.get_device_name(device_id)

    def is_arch_support_pdl(self):
        return False


def round_up(x, to):
    return -(-x // to) * to


def num_compute_units(device_id=0):
    return PLATFORM.num_compute_units(device_id or 0)


def get_device_name_as_file_name():
    return PLATFORM.get_device_name().replace(" ", "_")


PLATFORM = Platform()
LARGEST_FP8 = 224.0 if PLATFORM.is_fp8_fnuz() else torch.finfo(torch.float8_e4m3fn).max
"""Of e4m3fnuz, vLLM uses the numbers below 240, which are less accurate with its dynamic scales."""
ARCHITECTURES = {
    "gfx1x": ("gfx11", "gfx12"),
    "gfx11": ("gfx11",),
    "gfx1100": ("gfx1100",),
    "gfx1151": ("gfx1151",),
    "gfx12x": ("gfx12",),
    "mi3xx": ("gfx942", "gfx950"),
    "gfx9": ("gfx90a", "gfx942", "gfx950"),
    "gfx90a": ("gfx90a",),
    "gfx942": ("gfx942",),
    "gfx950": ("gfx950",),
}
"""The architectures for which vLLM asks, by the names of its questions: `on_gfx942()` and `_ON_GFX942`."""

MODULES = {
    "vllm.envs": {"VLLM_BATCH_INVARIANT": False, "VLLM_TRITON_USE_TD": None, "VLLM_TUNED_CONFIG_FOLDER": None},
    "vllm.triton_utils": {
        "HAS_TRITON": True,
        "LOG2E": 1 / math.log(2),
        "LOGE2": math.log(2),
        "tl": tl,
        "tldevice": libdevice,
        "triton": triton,
        "use_gluon": lambda: False,
        "use_tensor_descriptor": lambda: False,
    },
    "vllm.utils.math_utils": {
        "cdiv": triton.cdiv,
        "next_power_of_2": triton.next_power_of_2,
        "round_up": round_up,
    },
    "vllm.platforms": {"current_platform": PLATFORM},
    "vllm.platforms.rocm": {
        "use_rocm_custom_paged_attention": lambda *_, **__: False,
        **{f"on_{name}": is_one_of(*found) for name, found in ARCHITECTURES.items()},
        **{f"_ON_{name.upper()}": is_one_of(*found)() for name, found in ARCHITECTURES.items()},
    },
    "vllm.utils.platform_utils": {
        "get_device_name_as_file_name": get_device_name_as_file_name,
        "num_compute_units": num_compute_units,
    },
    "vllm.model_executor.layers.fused_moe": {"get_config": lambda: None},
    "vllm.utils.torch_utils": {
        "is_quantized_kv_cache": lambda kind: kind.startswith(("fp8", "int8", "nvfp4")),
        "is_torch_equal_or_newer": lambda _: True,
    },
    "vllm.model_executor.layers.quantization.utils.mxfp4_utils": {},
    "vllm.model_executor.layers.quantization.utils.quant_utils": {
        "FLOAT4_E2M1_MAX": 6.0,
        "FLOAT8_E4M3_MAX": LARGEST_FP8,
        "get_fp8_min_max": lambda: (-LARGEST_FP8, LARGEST_FP8),
    },
}
IMPORTED = (
    "vllm.model_executor.layers.fla.ops.chunk",
    "vllm.model_executor.layers.fla.ops.index",
    "vllm.model_executor.layers.fla.ops.utils",
    "vllm.scalar_type",
)
