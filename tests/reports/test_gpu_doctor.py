"""The GPU section of `harness doctor`, without a GPU and with a fake driver."""

from ctypes.util import find_library
from pathlib import Path

import pytest

from harness.engines.cuda.gpus.inventory import torch_problem
from harness.reports.gpu_doctor import gpu_parts
from harness.settings import Settings
from tests.engines.cuda import simulated_driver


@pytest.mark.skipif(find_library("cuda") is not None, reason="this machine has NVIDIA's driver")
def test_without_a_gpu_the_doctor_names_optional_parts() -> None:
    gpu, nvml = gpu_parts(Settings())
    assert (gpu.name, gpu.found, gpu.needed) == ("GPU", "", False)
    assert gpu.provide.startswith("libcuda.so.1 is not there: install NVIDIA's driver")
    assert gpu.provide.endswith("(--engine virtual needs no GPU)")
    assert (nvml.name, nvml.needed) == ("NVML", False)


def test_gpus_driver_and_obstacles_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(simulated_driver.build(tmp_path / "driver")))
    monkeypatch.setenv("SIMULATED_GPUS", "2")
    monkeypatch.setenv("SIMULATED_MODE", "3")
    parts = {part.name: part for part in gpu_parts(Settings(leases=tmp_path / "leases"))}
    assert parts["GPU"].found == (
        "NVIDIA H200 (GPU-02020202-0202-0202-0202-020202020202, 132 SMs); "
        "NVIDIA H200 (GPU-01010101-0101-0101-0101-010101010101, 132 SMs)"
    )
    assert parts["NVIDIA driver"].found == "580.159.03, for CUDA up to 13.2"
    assert parts["compute mode"].found.endswith("sudo nvidia-smi -c DEFAULT")
    assert parts["compute mode"].is_doubtful
    assert parts["torch for the GPU"].provide == torch_problem((13, 2))
