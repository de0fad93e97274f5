"""Kernels for Intel's GPUs compile as far as TTIR, with the options that Intel's backend has."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from harness.catalogue import find
from harness.engines.triton import later_stages, triton_seam
from harness.engines.triton.build_resources import compile_resources
from harness.engines.triton.driver import LaunchRequest, VirtualDriver
from harness.engines.triton.stage_process import compiled_text
from harness.errors import CannotExecute
from harness.model.kernel_resources import Resources
from harness.patches import PATCHES

NO_BACKEND = f"Triton {triton.__version__} has no backend for Intel's GPUs"


@triton.jit
def root_kernel(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, libdevice.rsqrt(tl.load(x + at)))


@pytest.fixture
def launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[LaunchRequest]]:
    """The launches of kernels while the process emulates an Intel GPU."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    before: Any = triton.runtime.driver
    active, seen = before._active, list[LaunchRequest]()
    root_kernel.device_caches.clear()
    triton_seam.set_driver(VirtualDriver(find("pvc"), seen.append))
    later_stages.compile_texts_on_request.cache_clear()  # other tests undo what it replaced
    triton_seam.compile_to_ttir_only()
    yield seen
    seen.clear()
    root_kernel.device_caches.clear()
    gc.collect()  # Triton 3.9 unloads kernels through the active driver
    PATCHES.undo()
    later_stages.compile_texts_on_request.cache_clear()
    before._active = active


def launch(**options: Any) -> None:
    root_kernel[(2,)](torch.ones(64), torch.ones(64), 64, **options)


def test_a_launch_has_ttir_and_the_options_of_intel(launches: list[LaunchRequest]) -> None:
    launch(num_warps=8, grf_mode="large")
    (request,) = launches
    assert 'symbol = "__nv_rsqrtf"' in request.ttir
    assert (request.metadata.num_warps, request.metadata.grf_mode, request.grid) == (8, "large", (2, 1, 1))
    assert request.metadata.target.arch["gpu_subslice_count"] == 64


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"maxnreg": 64}, "maxnreg was specified but unrecognised"),
        ({"waves_per_eu": 2}, "waves_per_eu was specified but unrecognised"),
        ({"num_ctas": 2}, "clusters of 2 blocks"),
        ({"num_warps": 128}, r"128 sub-groups \(num_warps\): this GPU has 64"),
        ({"num_warps": 3}, "num_warps must be a power of 2"),
    ],
)
def test_options_that_intel_gpus_lack_are_refused(
    launches: list[LaunchRequest], options: dict[str, int], refusal: str
) -> None:
    with pytest.raises((AssertionError, KeyError, ValueError), match=refusal):
        launch(**options)
    assert not launches


def test_nothing_below_ttir_is_known_of_intel_gpus(launches: list[LaunchRequest]) -> None:
    launch()
    ttir = launches[0].ttir
    assert compile_resources(ttir, "pvc", {}) == Resources.not_known(NO_BACKEND)
    with pytest.raises(CannotExecute, match=NO_BACKEND):
        compiled_text(ttir, "ttgir", "pvc", {})
    kernel = root_kernel.warmup(torch.ones(64), torch.ones(64), 64, grid=(1,))
    with pytest.raises(CannotExecute, match=NO_BACKEND):
        _ = kernel.asm["ttgir"]
