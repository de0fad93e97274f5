"""The facts recorded of each launch on a hardware GPU; here nothing is launched, and memory is the CPU's."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from harness.cuda.launches import WatchedLaunches
from harness.cuda.memory.redzones import RedzoneMemory
from harness.virtual.driver.driver import LaunchRequest
from harness.virtual.driver.triton_seam import ConfigChooser


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> WatchedLaunches:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    chooser = ConfigChooser()
    return WatchedLaunches(90, lambda: chooser.chosen, RedzoneMemory("cpu"))


def request(given: Any) -> LaunchRequest:
    return LaunchRequest(
        ttir="nothing that can be read",
        grid=(1, 1, 1),
        stream=0,
        source=SimpleNamespace(fn=SimpleNamespace(__name__="kernel", arg_names=["y"])),
        metadata=SimpleNamespace(num_warps=4),
        arguments=[given],
    )


def test_the_tensor_behind_a_descriptor_gets_its_writer(launches: WatchedLaunches) -> None:
    plain, described = torch.zeros(16, 16), torch.zeros(16, 16)
    launches(request(plain), lambda: None)
    launches(request(TensorDescriptor.from_tensor(described, [16, 16])), lambda: None)
    storages = {tensor.untyped_storage().data_ptr() for tensor in (plain, described)}
    assert launches.case_launches.writers == dict.fromkeys(storages, ("kernel", "y"))


def test_a_kernel_without_ttir_is_recorded_as_a_launch(launches: WatchedLaunches) -> None:
    launches(request(torch.zeros(16)), lambda: None)
    assert [(one.kernel, one.config, one.source) for one in launches.case_launches.launches] == [
        ("kernel", "num_warps: 4", None)
    ]


def test_a_fault_of_torchs_kernel_is_no_launchs(launches: WatchedLaunches, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    launched: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    with pytest.raises(RuntimeError, match="assert"):
        launches(request(torch.zeros(16)), lambda: launched.append("kernel"))
    assert (launched, launches.case_launches.unfinished) == ([], None)
