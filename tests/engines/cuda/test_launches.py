"""The facts recorded of each launch on a hardware GPU; here nothing is launched, and memory is the CPU's."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from triton.runtime._allocation import NullAllocator
from triton.tools.tensor_descriptor import TensorDescriptor

from harness.engines.cuda.launches import WatchedLaunches
from harness.engines.cuda.memory.redzones import RedzoneMemory
from harness.engines.triton.driver import LaunchRequest
from harness.engines.triton.scratch_checks import GARBAGE
from harness.engines.triton.triton_seam import ConfigChooser
from harness.model.run import ScratchFlaw


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> WatchedLaunches:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    chooser = ConfigChooser()
    return WatchedLaunches(90, lambda: chooser.chosen, RedzoneMemory("cpu"))


def with_scratch(given: Any) -> LaunchRequest:
    plain = request(given)
    return replace(plain, metadata=SimpleNamespace(num_warps=4, global_scratch_size=256, global_scratch_align=128))


def flaws_of(launches: WatchedLaunches, memory: object, given: torch.Tensor) -> list[ScratchFlaw]:
    """Launch with an allocator that returns this memory, as Triton's launcher asks for it."""
    launches.case_launches.scratch.clear()

    def launch() -> None:
        launches.allocate(lambda *_: memory, 256, 128, 0)

    launches(with_scratch(given), launch)
    return [fault.what for fault in launches.case_launches.scratch]


def test_scratch_memory_is_checked_before_the_launch(launches: WatchedLaunches) -> None:
    y = torch.zeros(512)
    whole = torch.zeros(1024, dtype=torch.uint8)
    aligned = whole[-whole.data_ptr() % 128 :]
    assert flaws_of(launches, aligned, y) == []
    assert aligned[:256].unique().tolist() == [GARBAGE]
    assert aligned[256:].unique().tolist() == [0]
    assert flaws_of(launches, aligned[64:], y) == [ScratchFlaw.MISALIGNED]
    assert flaws_of(launches, torch.zeros(0, dtype=torch.uint8), y) == [ScratchFlaw.TOO_SMALL]
    assert flaws_of(launches, None, y) == [ScratchFlaw.TOO_SMALL]
    assert ScratchFlaw.SHARED in flaws_of(launches, y, y)


def test_memory_of_a_launch_that_is_not_followed_is_left_alone(launches: WatchedLaunches) -> None:
    given = torch.zeros(512)
    assert flaws_of(launches, None, given) == [ScratchFlaw.TOO_SMALL]
    memory = torch.zeros(256, dtype=torch.uint8)
    assert launches.allocate(lambda *_: memory, 256, 128, 0) is memory
    assert not memory.any()
    assert [fault.what for fault in launches.case_launches.scratch] == [ScratchFlaw.TOO_SMALL]


def test_a_launch_without_an_allocator_is_recorded(launches: WatchedLaunches) -> None:
    def launch() -> None:
        launches.allocate(NullAllocator(), 256, 128, 0)

    for is_set, elsewhere in ((False, ""), (True, "in the main thread")):
        launches.case_launches.main_has_allocator = is_set
        with pytest.raises(RuntimeError, match="no allocator was set"):
            launches(with_scratch(torch.zeros(16)), launch)
        missing = launches.case_launches.scratch.pop()
        assert (missing.what, missing.needed_bytes, missing.other) == (ScratchFlaw.MISSING, 256, elsewhere)


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


WIDE = """
module {
  tt.func public @kernel(%y: !tt.ptr<f32> {tt.divisibility = 16 : i32}) attributes {noinline = false} {
    %lanes = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %first = tt.splat %y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %cells = tt.addptr %first, %lanes : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %value = tt.load %cells : tensor<16x!tt.ptr<f32>>
    tt.store %cells, %value : tensor<16x!tt.ptr<f32>>
    tt.return
  }
}
"""


def test_an_argument_that_the_build_was_not_made_for_is_recorded(launches: WatchedLaunches) -> None:
    source = SimpleNamespace(
        fn=SimpleNamespace(__name__="kernel", arg_names=["y"]),
        signature={"y": "*fp32"},
        constants={},
        attrs={(0,): [["tt.divisibility", 16]]},
    )
    metadata = SimpleNamespace(num_warps=4, num_stages=1)
    y = torch.zeros(32)
    for tensor in (y, y[1:17]):
        launches(replace(request(tensor), ttir=WIDE, source=source, metadata=metadata), lambda: None)
    (event,) = launches.case_launches.foreign
    assert (event.site.launch, event.site.argument) == (1, "y")


def test_a_fault_of_torchs_kernel_is_no_launchs(launches: WatchedLaunches, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    launched: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    with pytest.raises(RuntimeError, match="assert"):
        launches(request(torch.zeros(16)), lambda: launched.append("kernel"))
    assert (launched, launches.case_launches.unfinished) == ([], None)
