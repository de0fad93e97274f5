"""The properties of the emulated GPU: the results of `torch.cuda.get_device_properties` and of `torch.xpu`'s."""

from types import SimpleNamespace
from typing import Any

from harness.model.device import WIDE_WAVE, DeviceProfile, Vendor

ENGINES_PER_XE_CORE = 8
"""Vector engines (execution units) of an Xe-core."""
XPU_SUB_GROUPS = [16, 32]
XPU_DEVICE_IDS = {"pvc": 0x0BD5, "bmg": 0xE20B}
"""PCI device ids (Intel's compute runtime, list of supported platforms)."""
XPU_REVISIONS = {"pvc": 7, "bmg": 4}
"""The last part of the version of an architecture, 12.60.7 and 20.1.4 (Intel's `ocloc`, device IP versions)."""
XPU_DRIVER = "1.6.33578+51"


def gpu_properties(profile: DeviceProfile) -> "GpuProperties":
    """Return the result of `torch.cuda.get_device_properties`: the fields of torch 2.11 to 2.13 on a GPU, read-only."""
    major, minor = profile.capability
    of_cuda = (
        {}
        if profile.vendor is Vendor.AMD
        else {
            "shared_memory_per_block_optin": profile.shared_bytes_per_block,
            "shared_memory_per_multiprocessor": profile.shared_bytes_per_sm,
        }
    )
    return GpuProperties(
        **of_cuda,
        name=profile.name,
        major=major,
        minor=minor,
        multi_processor_count=profile.sm_count,
        total_memory=profile.memory_bytes,
        L2_cache_size=profile.l2_bytes,
        warp_size=profile.warp_size,
        max_threads_per_block=profile.max_threads_per_block,
        max_threads_per_multi_processor=profile.max_threads_per_sm,
        regs_per_multiprocessor=profile.registers_per_sm,
        shared_memory_per_block=profile.default_shared_bytes_per_block,
        clock_rate=profile.sm_clock_khz,
        memory_clock_rate=profile.memory_clock_khz,
        memory_bus_width=profile.memory_bus_bits,
        gcnArchName=_gcn_arch_name(profile),
        is_integrated=0,
        is_multi_gpu_board=0,
        pci_bus_id=0,
        pci_device_id=0,
        pci_domain_id=0,
        uuid="00000000-0000-0000-0000-000000000000",
    )


def _gcn_arch_name(profile: DeviceProfile) -> str:
    """Return the name of an AMD GPU's processor with its features, as HIP has it; CUDA builds give the GPU's name."""
    if profile.vendor is Vendor.NVIDIA:
        return profile.name
    return f"{profile.processor}:sramecc+:xnack-" if profile.warp_size == WIDE_WAVE else profile.processor


class GpuProperties(SimpleNamespace):
    """A read-only namespace, like torch's own object."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"the properties of a GPU are read-only: {name}")


def xpu_properties(profile: DeviceProfile) -> GpuProperties:
    """Return the result of `torch.xpu.get_device_properties`: the fields of torch 2.13 on an Intel GPU, read-only."""
    major, minor = profile.capability
    revision = XPU_REVISIONS[profile.processor]
    return GpuProperties(
        name=profile.name,
        platform_name="Intel(R) oneAPI Unified Runtime over Level-Zero",
        vendor="Intel(R) Corporation",
        type="gpu",
        device_id=XPU_DEVICE_IDS[profile.processor],
        driver_version=XPU_DRIVER,
        version=f"{major}.{minor}.{revision}",
        architecture=(major << 22 | minor << 14 | revision) << 8,  # as SYCL numbers architectures
        uuid="00000000-0000-0000-0000-000000000000",
        total_memory=profile.memory_bytes,
        local_mem_size=profile.shared_bytes_per_block,
        last_level_cache_size=profile.l2_bytes,
        max_compute_units=profile.sm_count * ENGINES_PER_XE_CORE,
        gpu_eu_count=profile.sm_count * ENGINES_PER_XE_CORE,
        gpu_eu_count_per_subslice=ENGINES_PER_XE_CORE,
        gpu_eu_simd_width=XPU_SUB_GROUPS[0],
        gpu_hw_threads_per_eu=profile.max_threads_per_sm // ENGINES_PER_XE_CORE // profile.warp_size,
        gpu_subslice_count=profile.sm_count,
        max_clock_frequency=profile.sm_clock_khz // 1000,
        memory_clock_rate=profile.memory_clock_khz // 1000,
        memory_bus_width=profile.memory_bus_bits,
        max_work_group_size=profile.max_threads_per_block,
        max_num_sub_groups=profile.max_threads_per_block // XPU_SUB_GROUPS[0],
        sub_group_sizes=XPU_SUB_GROUPS,
        has_fp16=True,
        has_fp64=True,
        has_atomic64=True,
        has_bfloat16_conversions=True,
        has_subgroup_matrix_multiply_accumulate=True,
        has_subgroup_matrix_multiply_accumulate_tensor_float32=True,
        has_subgroup_2d_block_io=True,
        is_integrated_gpu=False,
    )


def xpu_capability(profile: DeviceProfile) -> dict[str, Any]:
    """Return the result of `torch.xpu.get_device_capability`: the properties that are plain values."""
    return {name: value for name, value in sorted(vars(xpu_properties(profile)).items()) if name != "uuid"}
