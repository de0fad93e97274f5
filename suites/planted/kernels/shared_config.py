"""Doubles rows of D elements, each in one tile of autotuned size; of two kernels one has D in its key."""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": size}) for size in (16, 32, 64)]


def wide_enough(configs, arguments, **constants):
    """Exclude the tiles that are narrower than a row."""
    width = {**arguments, **constants}["D"]
    return [config for config in configs if config.kwargs["BLOCK"] >= width]


@triton.jit
def double_rows(x, y, D: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    row = tl.program_id(0) * D
    tl.store(y + row + o, 2.0 * tl.load(x + row + o, mask=o < D), mask=o < D)


PRUNING = {"early_config_prune": wide_enough}
shared_kernel = triton.autotune(configs=CONFIGS, key=[], prune_configs_by=PRUNING)(double_rows)
own_kernel = triton.autotune(configs=CONFIGS, key=["D"], prune_configs_by=PRUNING)(double_rows)


def doubled(x: torch.Tensor, *, has_key: bool) -> torch.Tensor:
    y = torch.empty_like(x)
    (own_kernel if has_key else shared_kernel)[(x.shape[0],)](x, y, D=x.shape[1])
    return y
