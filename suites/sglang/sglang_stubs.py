"""What SGLang's kernels and their launchers need from the rest of the package: the file that `stubs` of an op names."""

import os
from types import SimpleNamespace

import torch
from packaging.version import Version


def register_custom_op(function=None, **settings):
    """Leave a launcher as it is: as an operator of torch it would be called through torch.compile."""
    del settings
    return function or register_custom_op


def core_count(device_id=0):
    return torch.cuda.get_device_properties(device_id).multi_processor_count


def core_version():
    return Version(torch.__version__).release


class Platform:
    """The emulated GPU, as launchers ask for it."""

    @property
    def is_sm90(self):
        return torch.cuda.get_device_capability() == (9, 0)


def architecture():
    major, minor = torch.cuda.get_device_capability()
    return SimpleNamespace(major=major, minor=minor)


def is_amd():
    return torch.version.hip is not None


def is_architecture(name):
    """Return the function that asks for the beginning of an AMD GPU's architecture."""
    return lambda: is_amd() and torch.cuda.get_device_properties().gcnArchName.startswith(name)


class Record:
    """Takes the place of `msgspec.Struct`: values by their names or in their order."""

    def __init_subclass__(cls, **settings):
        del settings

    def __init__(self, *values, **named):
        vars(self).update(zip(type(self).__annotations__, values, strict=False), **named)


UTILITIES = {
    "is_cuda": lambda: not is_amd(),
    "is_hip": is_amd,
    "is_npu": lambda: False,
    "is_cpu": lambda: False,
    "is_sm90_supported": lambda: torch.cuda.get_device_capability() == (9, 0),
    "is_xpu": lambda: False,
    "is_gfx942_supported": is_architecture("gfx942"),
    "is_gfx95_supported": is_architecture("gfx95"),
    "is_gfx1250_supported": is_architecture("gfx1250"),
    "mxfp_supported": is_architecture("gfx95"),
    "cpu_has_amx_support": lambda: False,
    "get_bool_env_var": lambda name, default="false": os.environ.get(name, default).lower() in {"true", "1"},
    "get_device_core_count": core_count,
    "get_device_name": torch.cuda.get_device_name,
    "get_device_capability": torch.cuda.get_device_capability,
    "torch_release": core_version(),
}

MODULES = {
    "sglang.srt.runtime_context": {
        "get_platform": Platform,
        "get_exec": lambda: SimpleNamespace(deterministic=SimpleNamespace(enable_deterministic_inference=False)),
    },
    "sglang.srt.batch_invariant_ops": {"is_batch_invariant_mode_enabled": lambda: False},
    "sglang.srt.layers.moe.moe_runner.triton_utils": {"get_config": lambda: None},
    "msgspec": {"Struct": Record},
    "sgl_kernel": {},
    "aiter.ops.triton.utils.device_info": {"get_num_sms": core_count},
    "sglang.srt.utils": UTILITIES,
    "sglang.srt.utils.common": UTILITIES,
    "sglang.srt.utils.custom_op": {"register_custom_op": register_custom_op},
    "sglang.jit_kernel.utils": {"is_arch_support_pdl": lambda: False},
    "sglang.kernels.jit.utils": {
        **dict.fromkeys(("is_arch_support_pdl", "is_musa_runtime"), lambda: False),
        "is_hip_runtime": is_amd,
        "get_jit_cuda_arch": architecture,
    },
    "sglang.srt.layers.deep_gemm_wrapper.configurer": {"ENABLE_JIT_DEEPGEMM": False},
}
IMPORTED = (
    "sglang.kernels.ops.quantization.fp8_utils",
    "sglang.srt.layers.attention.fla.index",
    "sglang.srt.layers.attention.fla.utils",
    "sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe_triton_config",
)
