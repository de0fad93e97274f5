from functools import cache
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.compiler import ASTSource

from harness.catalogue import devices, find, find_all, gap, marks, nvidia, of_architecture
from harness.engines.triton.later_stages import BINARIES, target
from harness.errors import UsageError
from harness.model.device import Arch, Architecture, DeviceProfile, Vendor
from tests.engines.torch.kernels import doubled

SM_COUNTS = {
    "a100": 108,
    "rtx-3090": 82,
    "l4": 58,
    "l40s": 142,
    "rtx-4090": 128,
    "h100": 132,
    "h100-pcie": 114,
    "h200": 132,
    "gh200": 132,
    "b200": 148,
    "b300": 148,
    "gb200": 152,
    "gb300": 152,
    "jetson-thor": 20,
    "rtx-5090": 170,
    "rtx-5080": 84,
    "rtx-pro-6000": 188,
    "gb10": 48,
    "mi300x": 304,
    "mi325x": 304,
    "mi350x": 256,
    "mi355x": 256,
    "rx-7900-xtx": 48,
    "rx-9070-xt": 32,
    "pvc": 64,
    "bmg": 20,
}
SHARED_KIB = {80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227, 120: 99, 121: 99} | {
    "gfx942": 64,
    "gfx950": 160,
    "gfx1100": 64,
    "gfx1201": 64,
    "pvc": 128,
    "bmg": 128,
}


def compiled_for(arch: Arch) -> Any:
    source = ASTSource(doubled, {"x": "*fp32", "y": "*fp32", "n": "i32", "size": "constexpr"}, {(3,): 128})
    return triton.compile(source, target=target(arch))


@cache
def one_of_each_capability() -> tuple[DeviceProfile, ...]:
    return tuple({device.arch: device for device in devices()}.values())


def test_the_catalogue_has_these_gpus() -> None:
    assert {device.slug: device.sm_count for device in devices()} == SM_COUNTS


def test_shared_memory_follows_the_capability() -> None:
    assert {device.arch: device.shared_bytes_per_block // 1024 for device in devices()} == SHARED_KIB


def test_the_driver_keeps_one_kibibyte_of_each_sm() -> None:
    assert {device.shared_bytes_per_sm - device.shared_bytes_per_block for device in nvidia()} == {1024}


def test_every_row_names_its_source() -> None:
    assert [device.slug for device in devices() if len(device.source) < 20] == []


def test_names_are_those_of_the_driver() -> None:
    assert {device.name.partition(" ")[0] for device in nvidia()} == {"NVIDIA"}
    assert {device.name.partition(" ")[0] for device in find_all("amd")} == {"AMD"}
    assert {device.name.partition(" ")[0] for device in find_all("intel")} == {"Intel(R)"}


def test_the_h200_has_the_measured_figures() -> None:
    assert find("H200") == DeviceProfile(
        slug="h200",
        name="NVIDIA H200",
        architecture=Architecture.HOPPER,
        capability=(9, 0),
        sm_count=132,
        shared_bytes_per_block=232448,
        shared_bytes_per_sm=233472,
        l2_bytes=62914560,
        registers_per_sm=65536,
        max_threads_per_sm=2048,
        memory_bytes=150109880320,
        sm_clock_khz=1980000,
        memory_clock_khz=3201000,
        memory_bus_bits=6016,
        source=find("h200").source,
    )


def test_an_unknown_gpu_suggests_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"unknown device 'h20': did you mean h200"):
        find("h20")


def test_a_list_accepts_slugs_generations_and_capabilities() -> None:
    assert [device.slug for device in find_all("h200, hopper,sm_121")] == ["h200", "h100", "h100-pcie", "gh200", "gb10"]


def test_an_sm_count_overrides_that_of_every_gpu() -> None:
    assert [str(device) for device in find_all("h200,b200", sm_count=16)] == [
        "h200 (16 SMs, sm_90)",
        "b200 (16 SMs, sm_100)",
    ]


def test_an_sm_count_of_zero_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one SM, not 0"):
        find_all("h200", sm_count=0)


def test_marks_are_generation_gpu_and_capability() -> None:
    assert marks(find("rtx-pro-6000")) == ("blackwell", "rtx_pro_6000", "sm_120")
    assert marks(find("mi300x")) == ("cdna3", "mi300x", "gfx942", "amd")
    assert marks(find("pvc")) == ("xe_hpc", "pvc", "intel")


def test_amd_gpus_have_the_wave_size_of_their_target() -> None:
    amd = find_all("amd")
    assert [device.vendor for device in amd] == [Vendor.AMD] * 6
    assert [target(device.arch).warp_size for device in amd] == [device.warp_size for device in amd]
    assert str(find("mi300x")) == "mi300x (304 CUs, gfx942)"
    assert str(find("rx-9070-xt")) == "rx-9070-xt (32 WGPs, gfx1201)"


def test_intel_gpus_are_counted_in_xe_cores() -> None:
    assert [str(device) for device in find_all("intel")] == ["pvc (64 Xe-cores, pvc)", "bmg (20 Xe-cores, bmg)"]
    assert {device.vendor for device in find_all("intel")} == {Vendor.INTEL}
    assert find("bmg").grid_limits(256) == {"x": 2**31 - 1, "y": 2**31 - 1, "z": 2**31 - 1}


def test_a_generation_has_its_gpus() -> None:
    assert [device.slug for device in of_architecture(Architecture.ADA)] == ["l4", "l40s", "rtx-4090"]


@pytest.mark.parametrize("device", one_of_each_capability(), ids=lambda device: device.arch_name)
def test_triton_compiles_for_each_capability_or_the_gap_is_known(
    device: DeviceProfile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    if device.vendor is Vendor.INTEL:
        assert gap(device, triton.__version__) == f"Triton {triton.__version__} has no backend for Intel's GPUs"
    elif gap(device, triton.__version__):
        with pytest.raises(Exception, match=f"sm_{device.arch}a"):
            compiled_for(device.arch)
    else:
        assert compiled_for(device.arch).asm[BINARIES[device.vendor]]


def test_a_gap_names_what_is_missing_and_what_to_install() -> None:
    assert gap(find("jetson-thor"), "3.6.0") == (
        "Triton 3.6.0 makes no machine code for jetson-thor (sm_110): its ptxas does not know sm_110a; "
        "its resources can be judged with triton>=3.7"
    )
    assert gap(find("jetson-thor"), "3.9.0") == ""
