"""A survey calls autotuned kernels without launching any, and records what decides about their configs."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from harness.engines.triton.key_survey import KeySurvey, SurveyedCall
from tests.engines.conftest import Gpu


def large_enough(configs: list[Any], arguments: dict[str, Any], **_: Any) -> list[Any]:
    return [config for config in configs if config.kwargs["B"] >= arguments["n"]]


PRUNING = {"early_config_prune": large_enough}


@triton.autotune([triton.Config({"B": 8}), triton.Config({"B": 32})], key=["n", "NB"], prune_configs_by=PRUNING)
@triton.jit
def surveyed_kernel(x, n, D: tl.constexpr, NB: tl.constexpr, B: tl.constexpr):  # noqa: ARG001 - NB is needless
    tl.store(x + tl.arange(0, B), D, mask=tl.arange(0, B) < n)


@triton.jit
def other_kernel(x):
    tl.store(x, 1)


def survey(gpu: Gpu, n: int, width: int = 4, blocks: int = 1) -> SurveyedCall:
    surveying = KeySurvey(gpu.chooser)
    x = torch.zeros(8, dtype=torch.int32)
    with surveying.installed():
        other_kernel[(1,)](x)
        surveyed_kernel[(1,)](x, n, D=width, NB=blocks)
    assert (gpu.seen, x.sum().item()) == ([], 0)
    (call,) = surveying.calls.values()
    return call


def test_a_survey_records_key_settings_and_configs(gpu: Gpu) -> None:
    call = survey(gpu, 3)
    assert call.key == {"n": "3", "NB": "1"}
    assert call.types == ("torch.int32",)
    assert call.settings == {"n": "3", "D": "4", "NB": "1"}
    assert call.unused == {"NB"}
    assert [config.kwargs["B"] for config in call.usable] == [8, 32]


@pytest.mark.parametrize(
    ("other", "same"),
    [({"n": 4}, True), ({"n": 1}, False), ({"n": 9}, False), ({"width": 5}, False), ({"blocks": 2}, True)],
)
def test_the_code_depends_on_used_constants_divisibility_and_pruning(
    gpu: Gpu, other: dict[str, Any], *, same: bool
) -> None:
    assert (survey(gpu, **{"n": 3, **other}).code == survey(gpu, 3).code) == same


def test_kernels_are_launched_again_after_a_survey(gpu: Gpu) -> None:
    survey(gpu, 3)
    x = torch.zeros(8, dtype=torch.int32)
    surveyed_kernel[(1,)](x, 3, D=4, NB=1)
    assert x.sum().item() == 12
