"""What is noted of each launch on a real GPU; its launches are none, and its memory is the CPU's."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from harness.cuda.launches import WatchedLaunches
from harness.cuda.memory.redzones import GuardedMemory
from harness.virtual.driver.driver import LaunchRequest
from harness.virtual.driver.triton_seam import ConfigChooser


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> WatchedLaunches:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    chooser = ConfigChooser()
    return WatchedLaunches(90, lambda: chooser.chosen, GuardedMemory("cpu"))


def request(given: Any) -> LaunchRequest:
    return LaunchRequest(
        ttir="nothing that can be read",
        grid=(1, 1, 1),
        stream=0,
        source=SimpleNamespace(fn=SimpleNamespace(__name__="kernel", arg_names=["y"])),
        metadata=SimpleNamespace(num_warps=4),
        arguments=[given],
    )


def test_what_lies_behind_a_descriptor_has_its_writer_too(launches: WatchedLaunches) -> None:
    plain, described = torch.zeros(16, 16), torch.zeros(16, 16)
    launches(request(plain), lambda: None)
    launches(request(TensorDescriptor.from_tensor(described, [16, 16])), lambda: None)
    storages = {one.untyped_storage().data_ptr() for one in (plain, described)}
    assert launches.session.writers == dict.fromkeys(storages, ("kernel", "y"))


def test_a_fault_of_torchs_own_kernel_is_no_launchs(launches: WatchedLaunches, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    launched: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    with pytest.raises(RuntimeError, match="assert"):
        launches(request(torch.zeros(16)), lambda: launched.append("kernel"))
    assert (launched, launches.session.under_way) == ([], None)
