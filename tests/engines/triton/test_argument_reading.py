"""A launch asks tensors of torch's own class past torch's modes; other objects answer as they did."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch.overrides import TorchFunctionMode

from tests.engines.conftest import Gpu


class Asked(TorchFunctionMode):
    """Keeps the names of the functions that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


class Followed(torch.Tensor):
    """A class of a library, which sees the functions that are called with it."""

    asked: list[str] = []  # noqa: RUF012 - one list for all tensors of the test

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.asked.append(getattr(func, "__name__", ""))
        return super().__torch_function__(func, types, args, kwargs or {})


@triton.jit
def doubled_kernel(x, out):
    at = tl.program_id(0)
    tl.store(out + at, tl.load(x + at) * 2)


def test_modes_are_not_asked_about_arguments_but_see_the_grid(gpu: Gpu) -> None:
    del gpu
    x, out = torch.ones(4), torch.zeros(4)
    with Asked() as asked:
        doubled_kernel[lambda _: (x.numel(),)](x, out)
    assert (asked.names, out.tolist()) == (["numel"], [2.0] * 4)


def test_a_class_of_tensors_with_functions_of_its_own_is_asked(gpu: Gpu) -> None:
    del gpu
    x, out = torch.ones(4).as_subclass(Followed), torch.zeros(4)
    Followed.asked.clear()
    doubled_kernel[(4,)](x, out)
    assert (Followed.asked.count("data_ptr"), out.tolist()) == (1, [2.0] * 4)
