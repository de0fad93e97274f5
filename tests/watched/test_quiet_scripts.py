"""A watched script that launches nothing is told what it does instead."""

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from harness.engines.torch.cpu_tensors import CpuTensors
from harness.model.run import Source
from harness.watched.program_threads import CallingLines
from harness.watched.quiet_scripts import WAIT_S, TorchWaits, unlaunched

SCRIPT = """
import triton
from triton.testing import do_bench

@triton.autotune([triton.Config({"N": 8})], key=[])
@triton.heuristics({"M": lambda _: 2})
@triton.jit
def tuned(x, N, M):
    pass

@triton.jit
def plain(x):
    pass
"""


def frame_in_torch() -> FrameType:
    """Return the frame that runs while an operator of torch computes on the CPU."""
    seen: list[FrameType] = []

    def matmul() -> None:
        frame = sys._getframe().f_back
        assert frame is not None
        seen.append(frame)

    CpuTensors().__torch_function__(matmul, ())
    return seen[0]


def test_a_line_that_waits_in_torch_is_named_once() -> None:
    line = Source(file=__file__, line=7)
    waits = TorchWaits(lambda _: line)
    frame = frame_in_torch()
    assert [waits.text_at(frame, now) for now in (10.0, 12.0, 10.0 + WAIT_S, 30.0)] == [
        "",
        "",
        f"{os.path.relpath(__file__)}:7 waits for torch's matmul, 5 s so far: here torch runs on the CPU",
        "",
    ]


def test_other_code_between_two_looks_begins_a_new_wait() -> None:
    waits = TorchWaits(lambda _: Source(file=__file__, line=7))
    frames = (frame_in_torch(), sys._getframe(), frame_in_torch())
    assert [waits.text_at(frame, now) for frame, now in zip(frames, (0.0, 4.0, 8.0), strict=True)] == [""] * 3


def test_the_line_of_another_thread_s_frame_is_found() -> None:
    def here(find: Callable[[FrameType], Source | None]) -> Source | None:
        return find(sys._getframe())

    found = here(CallingLines(()).find)
    assert found is not None
    assert Path(found.file) == Path(__file__)


def test_a_script_that_only_defines_kernels_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file := tmp_path / "kernels.py").write_text(SCRIPT)
    spec = importlib.util.spec_from_file_location("__main__", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "__main__", module)
    assert (
        unlaunched("kernels.py") == "kernels.py defines tuned, plain, and launches no kernel: only launches are checked"
    )
    monkeypatch.delattr(module, "tuned")
    monkeypatch.delattr(module, "plain")
    assert unlaunched("kernels.py") == ""
