"""Released libraries detect the emulated GPU as they would detect the hardware GPU.

The expected values follow from each release's source.  fla-core 0.4.2 takes every capability from 9 on for Hopper, and
only capability 10 for Blackwell.
"""

import os

import pytest
import triton
from packaging.version import Version

from harness.libraries import resolve
from harness.settings import Settings
from tests.engines.torch.children import report_of

SLUGS = ("h200", "b200", "rtx-pro-6000", "a100")
FLA_NAMES = ("IS_NVIDIA_HOPPER", "IS_NVIDIA_BLACKWELL", "device_name", "IS_TF32_SUPPORTED")
HOPPER_AND_BLACKWELL = {
    "0.4.2": {"h200": (True, False), "b200": (True, True), "rtx-pro-6000": (True, False), "a100": (False, False)},
    "0.5.2": {"h200": (True, False), "b200": (False, True), "rtx-pro-6000": (False, True), "a100": (False, False)},
    "0.6.0": {"h200": (True, False), "b200": (False, True), "rtx-pro-6000": (False, True), "a100": (False, False)},
}

CACHE = Settings.from_environment(os.environ).cache

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "release", [*(pytest.param(release, marks=pytest.mark.nightly) for release in ("0.4.2", "0.5.2")), "0.6.0"]
)
def test_fla_detects_its_gpu(release: str) -> None:
    if release != "0.6.0" and Version(triton.__version__) >= Version("3.9"):
        pytest.skip("fla-core before 0.6.0 is not importable under Triton 3.9: autotune keys that name no argument")
    paths = resolve([f"fla-core=={release}"], cache=CACHE)
    modules = "fla.modules.layernorm,fla.utils"
    seen = report_of("program_library_facts.py", modules, ",".join(SLUGS), ",".join(FLA_NAMES), paths=paths)
    assert seen == {
        slug: dict(zip(FLA_NAMES, (hopper, blackwell, "cuda", True), strict=True))
        for slug, (hopper, blackwell) in HOPPER_AND_BLACKWELL[release].items()
    }


@pytest.mark.nightly
def test_liger_kernel_detects_cuda() -> None:
    paths = resolve(["liger-kernel==0.8.5"], cache=CACHE)
    modules = "torch.distributed.tensor,liger_kernel.ops.layer_norm,liger_kernel.utils"
    seen = report_of("program_library_facts.py", modules, ",".join(SLUGS), "__name__", paths=paths)
    assert seen == {slug: {"__name__": "liger_kernel.utils"} for slug in SLUGS}
