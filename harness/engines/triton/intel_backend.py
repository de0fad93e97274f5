"""A backend of Triton for Intel's GPUs, as far as TTIR: the wheel has backends for the GPUs of NVIDIA and AMD alone.

It takes the options that Intel's own backend takes, and refuses what that refuses.  Its passes are those that all
backends have in common.  External functions have the names of NVIDIA's libdevice, by which the virtual GPU knows them.
"""

import hashlib
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, fields
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

import triton
from triton import knobs
from triton.backends import Backend, backends
from triton.backends.compiler import BaseBackend, GPUTarget, Language

from harness.engines.torch.gpu_properties import xpu_capability
from harness.engines.triton.later_stages import target
from harness.errors import CannotExecute
from harness.model.device import DeviceProfile, Vendor

NAME = "intel"
"""Of the backend among Triton's."""
INT8_DOT_SIZE = (1, 16, 32)
"""The smallest product of 8-bit integers; products of floats have no smallest size."""
libtriton: Any = import_module("triton._C.libtriton")


def target_of(profile: DeviceProfile) -> GPUTarget:
    """Return the target of a device, as host code reads it from the driver.

    Its architecture is a dictionary for an Intel GPU, for which the backend is registered.
    """
    if profile.vendor is not Vendor.INTEL:
        return target(profile.arch)
    driver: Any = _NoDriver
    backends[NAME] = Backend(compiler=TtirBackend, driver=driver)
    arch: Any = {**xpu_capability(profile), "arch": profile.processor}
    return GPUTarget(str(Vendor.INTEL), arch, profile.warp_size)


class _NoDriver:
    """The backend's driver, which Triton does not choose by itself."""

    @classmethod
    def is_active(cls) -> bool:
        return False


@dataclass(frozen=True, kw_only=True)
class XpuOptions:
    """The options of a kernel by the names that Intel's backend gives them.  Others are refused, as they are there."""

    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 2
    cluster_dims: tuple[int, int, int] = (1, 1, 1)
    warp_size: int = 32
    grf_mode: str = "default"
    """Registers of a hardware thread: 128 (`small`), 256 (`large`), or as the compiler chooses."""
    optimize_epilogue: bool = False
    reduce_variable_liveness: bool = True
    use_barrier: bool = False
    generate_native_code: bool = False
    enable_fp_fusion: bool = True
    launch_cooperative_grid: bool = False
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e5", "fp8e4nv", "fp8e4b15")
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "tf32"
    allowed_dot_input_precisions: tuple[str, ...] = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    extern_libs: tuple[tuple[str, str], ...] = ()
    debug: bool = False
    sanitize_overflow: bool = True
    backend_name: str = NAME
    arch: str = ""
    instrumentation_mode: str = ""
    fpsan_homomorphic_casts: bool = False
    """Of Triton 3.9."""

    def __post_init__(self) -> None:
        if self.num_warps <= 0 or self.num_warps & (self.num_warps - 1):
            raise AssertionError("num_warps must be a power of 2")

    def hash(self) -> str:
        return hashlib.sha256(str(self).encode()).hexdigest()


class TtirBackend(BaseBackend):
    """The backend.  The names of its methods are Triton's."""

    binary_ext = "spv"
    supports_native_tensor_specialization = True

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == Vendor.INTEL

    def hash(self) -> str:
        return f"{NAME}-{triton.__version__}-{self.target}"

    def get_target_name(self, options: XpuOptions) -> str:
        del options
        return f"{Vendor.INTEL}:{self._properties['arch']}"

    def parse_options(self, options: Mapping[str, Any]) -> XpuOptions:
        known = {field.name for field in fields(XpuOptions)}
        chosen = {name: value for name, value in options.items() if name in known and value is not None}
        chosen.setdefault("enable_fp_fusion", knobs.language.default_fp_fusion)
        libraries = chosen.get("extern_libs") or ()
        chosen["extern_libs"] = tuple(libraries.items() if isinstance(libraries, Mapping) else libraries)
        return XpuOptions(**chosen)

    def pack_metadata(self, metadata: Any) -> Any:
        return metadata

    def get_codegen_implementation(self, options: XpuOptions) -> dict[str, Any]:
        del options
        return {"min_dot_size": _min_dot_size, "convert_custom_types": _refuse_conversion}

    def get_module_map(self) -> dict[str, ModuleType]:
        return {"triton.language.extra.libdevice": import_module("triton.language.extra.cuda.libdevice")}

    def load_dialects(self, context: Any) -> None:
        """Load nothing: TTIR's dialects are there already."""

    def add_stages(self, stages: MutableMapping[str, Any], options: Any, language: Language = Language.TRITON) -> None:
        if language is Language.TRITON:
            stages["ttir"] = lambda module, metadata: self._make_ttir(module, metadata, options)
        if knobs.runtime.add_stages_inspection_hook is not None:
            hook: Any = knobs.runtime.add_stages_inspection_hook
            hook(self, stages, options, language, None)

    @property
    def _properties(self) -> Mapping[str, Any]:
        properties: Any = self.target.arch
        return properties

    def _make_ttir(self, module: Any, metadata: MutableMapping[str, Any], options: XpuOptions) -> Any:
        self._refuse(options)
        metadata["threads_per_warp"] = options.warp_size
        passes = libtriton.passes
        manager = libtriton.ir.pass_manager(module.context)
        manager.enable_debug()
        passes.common.add_inliner(manager)
        if hasattr(passes.ttir, "add_rewrite_tensor_pointer"):  # up to Triton 3.8
            passes.ttir.add_rewrite_tensor_pointer(manager)
        passes.ttir.add_rewrite_tensor_descriptor_to_pointer(manager)
        passes.common.add_canonicalizer(manager)
        passes.ttir.add_combine(manager)
        passes.ttir.add_reorder_broadcast(manager)
        passes.common.add_cse(manager)
        passes.ttir.add_triton_licm(manager)
        passes.common.add_symbol_dce(manager)
        passes.ttir.add_loop_unroll(manager)
        manager.run(module, "make_ttir")
        return module

    def _refuse(self, options: XpuOptions) -> None:
        """Refuse the options that the GPU does not have.

        Raises:
            ValueError: as Intel's backend does for them.
        """
        sizes, most = self._properties["sub_group_sizes"], self._properties["max_num_sub_groups"]
        if options.warp_size not in sizes:
            raise ValueError(f"sub-groups of {options.warp_size} lanes (warp_size): this GPU has {sizes}")
        if options.num_warps > most:
            raise ValueError(f"{options.num_warps} sub-groups (num_warps): this GPU has {most} at most")
        if options.num_ctas != 1:
            raise ValueError(f"clusters of {options.num_ctas} blocks (num_ctas): Intel's GPUs have none")


def _min_dot_size(left: Any, right: Any) -> tuple[int, int, int]:
    return INT8_DOT_SIZE if left.scalar.is_int8() and right.scalar.is_int8() else (1, 1, 1)


def _refuse_conversion(*_: object, **__: object) -> NoReturn:
    raise CannotExecute("conversions of fp8e4b15 on Intel's GPUs")
