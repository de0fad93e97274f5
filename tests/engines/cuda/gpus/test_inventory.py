"""The inventory that a simulated driver reports, and the device profiles of its GPUs."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from ctypes.util import find_library
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness import catalogue, wire
from harness.engines.cuda.gpus import inventory as inventory_module
from harness.engines.cuda.gpus.inventory import (
    ComputeMode,
    Inventory,
    inventory,
    parsed,
    problem_of_build,
    profile_of,
    real_gpus,
)
from harness.engines.cuda.gpus.nvidia_driver import ATTRIBUTES, is_allowed
from harness.errors import MissingPart, WorkerError
from harness.model.device import Architecture
from tests.engines.cuda import simulated_driver
from tests.engines.cuda.samples import H200

BUILT = "__version__ = '2.11.0'\ndebug = False\ncuda: Optional[str] = '13.0'\n"


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Load a simulated driver before the machine's own: `simulate(gpus=2)`."""

    def load(**facts: object) -> None:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(simulated_driver.build(tmp_path / "driver")))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        for name, value in facts.items():
            monkeypatch.setenv(f"SIMULATED_{name.upper()}", str(value))

    return load


def test_gpus_are_listed_in_bus_order_with_all_properties(simulate: Callable[..., None]) -> None:
    simulate(gpus=2)
    found = inventory()
    first = replace(
        H200,
        uuid="GPU-02020202-0202-0202-0202-020202020202",
        pci_bus_id="0000:fe:00.0",
        cuda_version=(13, 2),
    )
    second = replace(first, uuid="GPU-01010101-0101-0101-0101-010101010101", pci_bus_id="0000:ff:00.0")
    assert found == Inventory(gpus=(first, second))
    assert [profile_of(gpu) for gpu in found.gpus] == [catalogue.find("h200")] * 2


def test_mig_slices_that_cuda_hides_are_found(simulate: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(slices=2)
    first, second = inventory().gpus
    assert (first.uuid, first.sm_count) == ("MIG-000000a0-0000-0000-0000-000000000000", 16)
    assert second == replace(first, uuid="MIG-000000a1-0000-0000-0000-000000000000")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", second.uuid)
    assert inventory() == Inventory(gpus=(second,))


@pytest.mark.parametrize(
    ("visible", "allowed"),
    [(None, True), ("MIG-aa", True), ("GPU-1,MIG-aabb", True), ("MIG-ab", False), ("0", False), ("", False)],
)
def test_cuda_visible_devices_restricts_slices(visible: str | None, *, allowed: bool) -> None:
    assert is_allowed("MIG-aabbccdd", visible) is allowed


@pytest.mark.parametrize(
    ("status", "said"),
    [(100, "sees no GPU"), (803, "of different versions: reboot"), (77, "cuInit: CUDA error 77: nvidia-smi may")],
)
def test_a_broken_driver_is_reported_with_the_remedy(simulate: Callable[..., None], status: int, said: str) -> None:
    simulate(gpus=1, status=status)
    with pytest.raises(MissingPart, match=rf"^no GPU for cases: .*{said}.*; --engine virtual needs no GPU$"):
        real_gpus()
    assert inventory().has_driver


def test_an_exclusive_gpu_gets_no_cases(simulate: Callable[..., None]) -> None:
    simulate(gpus=1, mode=3)
    assert [gpu.compute_mode for gpu in inventory().gpus] == [ComputeMode.EXCLUSIVE]
    with pytest.raises(MissingPart, match=r"GPU-0101\S+ is in compute mode Exclusive_Process, .*nvidia-smi -c DEFAULT"):
        real_gpus()


@pytest.mark.skipif(find_library("cuda") is not None, reason="this machine has NVIDIA's driver")
def test_a_missing_driver_is_reported() -> None:
    with pytest.raises(MissingPart, match=r"libcuda.so.1 is not there: install NVIDIA's driver.*--engine virtual"):
        real_gpus()
    assert not inventory().has_driver


def test_damaged_output_of_the_child_is_an_error() -> None:
    found = Inventory(gpus=(H200,), problem="")
    assert parsed(wire.to_json(found)) == found
    for damaged in ("", "{}x", '{"gpus": [{}], "problem": ""}', wire.to_json(found).replace("132", '"132"')):
        with pytest.raises(WorkerError, match="the list of GPUs that the child process wrote is damaged"):
            parsed(damaged)


def test_torch_must_be_built_for_the_drivers_cuda() -> None:
    assert problem_of_build(BUILT, (13, 0)) == ""
    assert problem_of_build(BUILT, (14, 1)) == ""
    assert problem_of_build(BUILT, (12, 8)) == (
        "the driver serves CUDA 12.8 at most, and torch 2.11.0 is built for CUDA 13.0: update NVIDIA's driver, or pip "
        "install a torch for CUDA 12"
    )
    without = BUILT.replace("'13.0'", "None")
    assert problem_of_build(without, (13, 0)).startswith("torch 2.11.0 is built without CUDA: pip install")


def test_the_installed_torch_is_checked_without_an_import() -> None:
    import torch

    assert (inventory_module.torch_problem((99, 0)) == "") is (torch.version.cuda is not None)


def test_attribute_numbers_match_cudas_header() -> None:
    spec = find_spec("triton")
    assert spec is not None
    assert spec.origin is not None
    header = (Path(spec.origin).parent / "backends/nvidia/include/cuda.h").read_text(encoding="utf-8")
    numbers = dict(re.findall(r"CU_DEVICE_ATTRIBUTE_(\w+) = (\d+)", header))
    assert {name: int(numbers[name]) for name in ATTRIBUTES} == ATTRIBUTES
    modes = dict(re.findall(r"CU_COMPUTEMODE_(\w+) +=+ *(\d+)", header))
    assert modes == {"DEFAULT": "0", "PROHIBITED": "2", "EXCLUSIVE_PROCESS": "3"}


def test_a_gpu_of_the_catalogue_keeps_its_number_of_sms() -> None:
    h200 = catalogue.find("h200")
    assert profile_of(replace(H200, memory_bytes=1, sm_clock_khz=2)) == h200
    assert profile_of(replace(H200, sm_count=96)) == h200.with_sm_count(96)


def test_a_gpu_of_another_name_is_recognised_by_its_properties() -> None:
    assert profile_of(replace(H200, name="NVIDIA H200 NVL")) == catalogue.find("h200")
    other = replace(H200, name="NVIDIA H20", sm_count=78)
    profile = profile_of(other)
    assert (profile.slug, profile.name, profile.sm_count) == ("h20", "NVIDIA H20", 78)
    assert (profile.architecture, profile.memory_bytes) == (Architecture.HOPPER, H200.memory_bytes)
    assert profile.source == "read from the device by the CUDA driver API, driver 580.159.03"


@pytest.mark.parametrize("device", catalogue.devices(), ids=lambda device: device.slug)
def test_every_gpu_of_the_catalogue_is_recognised(device: catalogue.DeviceProfile) -> None:
    figures = {name: getattr(device, name) for name in H200.__slots__ if hasattr(device, name)}
    assert profile_of(replace(H200, **figures)) == device


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [((8, 7), Architecture.AMPERE), ((8, 9), Architecture.ADA), ((12, 1), Architecture.BLACKWELL)],
)
def test_an_unknown_gpu_gets_the_architecture_of_its_capability(
    capability: tuple[int, int], architecture: Architecture
) -> None:
    unknown = replace(H200, name="NVIDIA GeForce RTX 1", capability=capability, sm_count=3)
    assert (profile_of(unknown).slug, profile_of(unknown).architecture) == ("rtx-1", architecture)


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(MissingPart, match=r"Tesla T4 has compute capability 7\.5, .* 8\.0 to 12\.1"):
        profile_of(replace(H200, name="Tesla T4", capability=(7, 5)))


def test_bench_gpu_without_a_gpu_fails_with_one_line() -> None:
    root = Path(__file__).resolve().parents[4]
    done = subprocess.run(
        [sys.executable, "ci/bench_gpu.py", "trivial"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert re.fullmatch(r"bench-gpu: no GPU for cases: .*; --engine virtual needs no GPU\n", done.stderr)
