"""A copy of Triton's autotuner that swallows every exception; its hook before a benchmark may not know None."""

from math import inf

import torch
import triton
import triton.language as tl
from triton.runtime.jit import KernelInterface


class SwallowingAutotuner(KernelInterface):
    """Runs each config once and keeps the first that did not raise; copies the tensors in `restored` before."""

    def __init__(self, kernel, configs, key, restored, *, knows_none):
        self.fn, self.arg_names = kernel, kernel.arg_names
        self.configs, self.keys, self.cache = configs, key, {}
        self.restore_value, self.reset_to_zero = restored, []
        self.knows_none = knows_none
        self.best_config = None

    def prune_configs(self, kwargs):
        del kwargs
        return self.configs

    def do_bench(self, kernel_call, quantiles):
        kernel_call()
        return [0.0 for _ in quantiles]

    def _bench(self, *args, config, **kwargs):
        def kernel_call():
            given = {name: self.nargs[name] for name in self.restore_value}
            copies = {name: value.clone() for name, value in given.items() if not (self.knows_none and value is None)}
            self.fn.run(*args, **kwargs, **config.all_kwargs())
            for name, copy in copies.items():
                given[name].copy_(copy)

        try:
            return self.do_bench(kernel_call, quantiles=(0.5,))
        except Exception:  # noqa: BLE001 - the planted mistake
            return [inf]

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        if len(self.configs) > 1:
            key = tuple(self.nargs[name] for name in self.keys)
            if key not in self.cache:
                times = {one: self._bench(*args, config=one, **kwargs) for one in self.prune_configs(kwargs)}
                self.cache[key] = min(times, key=times.get)
            self.best_config = self.cache[key]
        else:
            (self.best_config,) = self.configs
        return self.fn.run(*args, **kwargs, **self.best_config.all_kwargs())


@triton.jit
def shift(x, bias, y, T, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    for start in range(0, T, BLOCK):
        o = start + tl.arange(0, BLOCK)
        b_y = tl.load(x + o, mask=o < T)
        if HAS_BIAS:
            b_y += tl.load(bias + o, mask=o < T)
        tl.store(y + o, b_y, mask=o < T)


CONFIGS = [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 16})]
swallowing_kernel = SwallowingAutotuner(shift, CONFIGS, [], ["bias"], knows_none=False)
sound_kernel = SwallowingAutotuner(shift, CONFIGS, [], ["bias"], knows_none=True)


def shifted(x: torch.Tensor, bias: torch.Tensor | None, *, knows_none: bool) -> torch.Tensor:
    y = torch.empty_like(x)
    kernel = sound_kernel if knows_none else swallowing_kernel
    kernel[(1,)](x, bias, y, x.shape[0], HAS_BIAS=bias is not None)
    return y
