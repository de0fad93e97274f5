"""Torch answers for the emulated GPU.  A torch release that moves a private name fails here (written for 2.13.0)."""

from functools import cache
from typing import Any

import pytest

from harness.catalogue import find
from harness.model.device import Vendor
from tests.engines.torch.children import report_of


@cache
def facts(slug: str) -> Any:
    return report_of("program_torch_facts.py", slug)


@pytest.mark.parametrize(
    "slug", ["h200", pytest.param("rtx-pro-6000", marks=pytest.mark.nightly), "mi300x", "rx-9070-xt"]
)
def test_torch_describes_the_emulated_device(slug: str) -> None:
    profile = find(slug)
    is_amd = profile.vendor is Vendor.AMD
    assert facts(slug)["device"] == {
        "available": True,
        "count": 1,
        "current": 0,
        "name": profile.name,
        "capability": list(profile.capability),
        "sm_count": profile.sm_count,
        "shared_bytes": profile.shared_bytes_per_block,
        "lanes": profile.warp_size,
        "processor": {"mi300x": "gfx942:sramecc+:xnack-", "rx-9070-xt": "gfx1201"}.get(slug, profile.name),
        "tf32": slug != "rx-9070-xt",
        "builds": [profile.arch_name],
        "hip_version": is_amd,
        "l2_bytes": profile.l2_bytes,
        "read_only": True,
        "second_gpu": True,
        "bf16": True,
        "cuda_version": not is_amd,
        "accelerator": "cuda",
        "module": "torch.cuda",
        "memory_free": profile.memory_bytes,
    }


def test_dynamo_imports_before_the_device_is_chosen_and_questions_raise() -> None:
    assert facts("h200")["refused_before"]


def test_cpu_tensors_look_like_cuda_tensors_forward_and_backward() -> None:
    assert facts("h200")["tensor"] == {
        "device": "cuda:0",
        "is_cuda": True,
        "index": 0,
        "really": "cpu",
        "without_memory": ["meta", False, True, -1],
        "gradients": [[[2.0] * 3] * 2, [[2.0] * 3] * 2],
        "in_backward": ["cuda:0 True", "cuda:0 True"],
        "moved": [True, True, True, False],
        "pinned": 3,
        "like": "cpu",
        "by_default": "cpu",
        "counted": [1, 0, 2],
        "autocast": ["torch.float16", "torch.float32", "torch.float16", "torch.float32"],
        "loss": 1.3828125,
        "recomputed": [2.0, 2.0],
        "module": "cuda:0",
    }


def test_streams_and_events_are_always_finished() -> None:
    assert facts("h200")["stream"] == {"elapsed": True, "raw": 0}


def test_seeds_reach_the_only_generator() -> None:
    assert facts("h200")["random"] == {"seeded": True, "restored": True}


def test_torch_of_an_intel_gpu_has_xpu_and_no_cuda() -> None:
    profile = find("bmg")
    assert report_of("program_xpu_facts.py", "bmg") == {
        "cuda": [False, 0, False, None],
        "refused": [
            "AssertionError: Torch not compiled with CUDA enabled",
            "AssertionError: Torch not compiled with CUDA enabled",
            "AssertionError: Torch not compiled with CUDA enabled",
            "CannotExecute: graphs of Intel's GPUs (torch.xpu.XPUGraph)",
            "AssertionError: Invalid device id: 1; the emulated machine has one GPU",
            "CannotExecute: programs of torch.compile for Intel's GPUs",
        ],
        "xpu": [True, 1, 0, "Intel(R) Arc(TM) B580 Graphics"],
        "version": True,
        "memory": [profile.memory_bytes] * 2,
        "properties": [20, 160, "20.1.4", profile.name],
        "capability": [[16, 32], 21479031808, True],
        "accelerator": ["xpu", "torch.xpu"],
        "tensor": ["xpu:0", True, False, False, "xpu:0"],
        "moved": [True, False],
        "in_backward": ["xpu:0 True"],
        "stream": [True, 0, True],
        "autocast": "torch.bfloat16",
    }
