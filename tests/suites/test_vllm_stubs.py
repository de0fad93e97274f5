"""The stubs of vLLM behave as what they stand for."""

import runpy
from pathlib import Path

import pytest
import torch

STUBS = Path(__file__).parents[2] / "suites" / "vllm" / "vllm_stubs.py"


def test_a_capability_has_parts_and_compares_as_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (12, 1))
    capability = runpy.run_path(str(STUBS))["PLATFORM"].get_device_capability()
    assert (capability.major, capability.minor, capability.to_int(), capability.as_version_str()) == (
        12,
        1,
        121,
        "12.1",
    )
    assert capability == (12, 1)
    assert capability >= (9, 0)
