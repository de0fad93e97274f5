"""What the suites' stubs answer libraries that ask for the vendor of the emulated GPU."""

import os
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

SUITES = Path(__file__).parents[2] / "suites"


def stubs(file: str) -> dict[str, Any]:
    return runpy.run_path(str(SUITES / file))


@pytest.fixture
def mi300x(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "7.0")
    properties = SimpleNamespace(gcnArchName="gfx942:sramecc+:xnack-", multi_processor_count=304)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: properties)


@pytest.mark.usefixtures("mi300x")
def test_vllm_sees_an_amd_gpu() -> None:
    modules = stubs("vllm/vllm_stubs.py")["MODULES"]
    platform = modules["vllm.platforms"]["current_platform"]
    assert (platform.is_rocm(), platform.is_cuda(), platform.fp8_dtype()) == (True, False, torch.float8_e4m3fnuz)
    rocm = modules["vllm.platforms.rocm"]
    assert (rocm["on_gfx942"](), rocm["_ON_GFX950"], rocm["on_gfx9"](), rocm["on_gfx1x"]()) == (
        True,
        False,
        True,
        False,
    )


@pytest.mark.usefixtures("mi300x")
def test_sglang_sees_an_amd_gpu() -> None:
    answers = stubs("sglang/sglang_stubs.py")["UTILITIES"]
    asked = ("is_hip", "is_cuda", "is_gfx942_supported", "is_gfx95_supported")
    assert [answers[name]() for name in asked] == [True, False, True, False]


@pytest.mark.usefixtures("mi300x")
def test_aiter_gets_the_architecture_and_its_numbers_of_eight_bits() -> None:
    provided = stubs("aiter/aiter_stubs.py")
    chip = provided["MODULES"]["aiter.jit.utils.chip_info"]
    assert (chip["get_gfx"](), chip["get_cu_num"](), provided["DTYPES"].fp8) == ("gfx942", 304, torch.float8_e4m3fnuz)


@pytest.mark.parametrize(("hip", "vendor"), [("7.0", "amd"), (None, "nvidia")])
def test_flag_gems_reads_the_gpus_vendor(monkeypatch: pytest.MonkeyPatch, hip: str | None, vendor: str) -> None:
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.delenv("GEMS_VENDOR", raising=False)
    stubs("flag_gems/gems_vendor.py")["name_vendor"]()
    assert os.environ["GEMS_VENDOR"] == vendor


def test_without_rocm_vllm_and_sglang_see_an_nvidia_gpu() -> None:
    platform = stubs("vllm/vllm_stubs.py")["PLATFORM"]
    assert (platform.is_rocm(), platform.is_cuda(), platform.fp8_dtype()) == (False, True, torch.float8_e4m3fn)
    answers = stubs("sglang/sglang_stubs.py")["UTILITIES"]
    assert (answers["is_hip"](), answers["is_cuda"](), answers["is_gfx95_supported"]()) == (False, True, False)
