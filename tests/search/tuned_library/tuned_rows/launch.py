"""A kernel that doubles rows, and its launch with the config that host code picks."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import torch
import triton
import triton.language as tl

from tuned_rows.choice import get_configs


@triton.jit
def double_rows(x, y, N, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    row = tl.program_id(0)
    for step in range(STEPS):
        o_n = (tl.program_id(1) * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        inside = o_n < N - (STEPS - 1)  # wrong for more than one step
        tl.store(y + row * N + o_n, 2 * tl.load(x + row * N + o_n, mask=inside), mask=inside)


def doubled(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    y = torch.zeros_like(x)
    configs = get_configs(columns) or {1: {"BLOCK": 16, "STEPS": 1}}
    config = configs[min(configs, key=lambda key: abs(key - rows))]
    double_rows[rows, triton.cdiv(columns, config["BLOCK"] * config["STEPS"])](x, y, columns, **config)
    return y
