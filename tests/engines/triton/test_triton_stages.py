"""The stages give what `triton.compile` gives, and the front end ignores what it is said to ignore."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from harness import catalogue
from harness.engines.triton import later_stages, triton_seam
from harness.engines.triton.build_resources import compile_resources
from harness.engines.triton.driver import LaunchRequest, VirtualDriver
from harness.engines.triton.machine_code import amd_facts, amd_instructions, cubin_instructions, ptxas_facts
from harness.engines.triton.triton_stages import CallRecorder, RecordedBuild, RecordedCall, compile_stages, front_end
from harness.model.device import Vendor
from harness.model.kernel_build import CompileTarget
from tests.engines.triton.ttir_texts import STORE

HOPPER = CompileTarget(arch="90")
OPTIONS = {"num_warps": 4, "num_stages": 3}


@triton.jit
def product_kernel(x, y, out, K, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), tl.float32)
    for step in range(K):
        total = tl.dot(tl.load(x + step * N * N + at), tl.load(y + step * N * N + at), total)
    tl.store(out + at, total)


def launch_nothing(request: LaunchRequest) -> None:
    del request


@contextmanager
def on_h200() -> Generator[None]:
    before: Any = triton.runtime.driver
    active = before._active
    product_kernel.device_caches.clear()
    triton_seam.set_driver(VirtualDriver(catalogue.find("h200"), launch_nothing))
    try:
        yield
    finally:
        product_kernel.device_caches.clear()
        before._active = active


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> RecordedBuild:
    """One build of the kernel with N = 128, as host code for an H200 launches it."""
    monkeypatch.setattr(triton.runtime.jit.JITFunction, "_do_compile", triton.runtime.jit.JITFunction._do_compile)
    monkeypatch.setattr(triton.runtime.autotuner.Autotuner, "run", triton.runtime.autotuner.Autotuner.run)
    calls: list[RecordedCall] = []
    CallRecorder(calls.append).install()
    x = torch.zeros(4, 128, 128, dtype=torch.bfloat16)
    with on_h200():
        product_kernel[(3, 1)](x, x, torch.zeros(128, 128), 4, 128)
    (call,) = calls
    (build,) = call.builds
    return build


def text_for(build: RecordedBuild, target: CompileTarget, **options: int) -> str:
    with on_h200():
        return front_end(build.source, target, {**build.options, **options})[0]


def test_a_recorded_launch_has_its_grid_and_constants(recorded: RecordedBuild) -> None:
    assert recorded.grid == (3, 1, 1)
    assert list(recorded.source.constants.values()) == [128]


def test_the_stages_make_the_code_that_triton_compiles(
    recorded: RecordedBuild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / "kernel.ttir"
    file.write_text(text_for(recorded, HOPPER), encoding="utf-8")
    staged = compile_stages(file, HOPPER, OPTIONS)
    whole: Any = compile_whole(recorded)
    assert hashlib.sha256(staged.binary).hexdigest() == hashlib.sha256(whole.asm["cubin"]).hexdigest()
    facts = ("shared", "global_scratch_size", "global_scratch_align", "profile_scratch_size", "tmem_size", "num_warps")
    assert {name: staged.metadata[name] for name in facts} == {name: getattr(whole.metadata, name) for name in facts}


def compile_whole(build: RecordedBuild) -> Any:
    with on_h200():
        return triton.compile(build.source, target=later_stages.target(90), options=dict(build.options))


def test_warps_and_stages_do_not_reach_the_front_end(recorded: RecordedBuild) -> None:
    texts = {
        text_for(recorded, HOPPER, num_warps=warps, num_stages=stages, maxnreg=registers)
        for warps, stages, registers in ((4, 3, 128), (8, 1, 255), (1, 5, 64))
    }
    assert len(texts) == 1


@pytest.mark.parametrize("arch", [90, *(pytest.param(arch, marks=pytest.mark.nightly) for arch in (80, 100, 120))])
def test_ptxas_reports_what_cuobjdump_reads_from_the_cubin(recorded: RecordedBuild, tmp_path: Path, arch: int) -> None:
    target = CompileTarget(arch=str(arch))
    text = text_for(recorded, target)
    file = tmp_path / "kernel.ttir"
    file.write_text(text, encoding="utf-8")
    staged = compile_stages(file, target, {"num_warps": 1, "num_stages": 1})
    facts = ptxas_facts(staged.log)
    read = compile_resources(text, arch, {"num_warps": 1, "num_stages": 1})
    assert (facts.registers, facts.local_bytes) == (read.registers_per_thread, read.spill_bytes)
    assert facts.local_bytes >= 1000
    assert min(facts.spill_store_bytes, facts.spill_load_bytes) > 0
    assert cubin_instructions(staged.binary) > 1000


def test_an_amd_target_has_registers_and_spills_too(recorded: RecordedBuild, tmp_path: Path) -> None:
    target = CompileTarget(vendor=Vendor.AMD, arch="gfx942", warp_size=64)
    file = tmp_path / "kernel.ttir"
    with on_h200():
        file.write_text(front_end(recorded.source, target, {"num_warps": 1})[0], encoding="utf-8")
    staged = compile_stages(file, target, {"num_warps": 1, "num_stages": 1})
    facts = amd_facts(staged.binary.decode())
    assert facts.registers > 100
    assert facts.local_bytes > 0
    assert facts.spill_store_bytes > 0
    assert amd_instructions(staged.binary.decode()) > 1000
    whole = compile_resources(file.read_text(), target.arch, {"num_warps": 1, "num_stages": 1})  # by `triton.compile`
    read = (whole.registers_per_thread, whole.spill_bytes, whole.shared_bytes, whole.threads)
    assert read == (facts.registers, facts.local_bytes, staged.metadata["shared"], 64)
    assert staged.metadata["shared"] > 0


def test_a_small_kernel_spills_nothing(tmp_path: Path) -> None:
    file = tmp_path / "kernel.ttir"
    file.write_text(STORE, encoding="utf-8")
    facts = ptxas_facts(compile_stages(file, HOPPER, OPTIONS).log)
    assert (facts.local_bytes, facts.spill_store_bytes, facts.warnings) == (0, 0, ())
