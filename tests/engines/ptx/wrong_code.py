"""Run by tests with a folder of builds: a launch, looked into if its kept PTX is wrong.

Variants of the kernel are compiled anew, and are right.
"""

# Triton types the kernel.
# ruff: noqa: ANN001, ANN201, N803, T201
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportIndexIssue=false

import os
import sys

import torch
import triton
import triton.language as tl

from harness import catalogue
from harness.engines.ptx.ptx_comparison import PtxComparisonEngine
from harness.engines.triton.builds import BUILDS_VARIABLE
from harness.model.miscompilation import InquiryRequest


@triton.jit
def raised(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at) + 3.0)


def launch() -> None:
    raised[(1,)](torch.ones(128), torch.empty(128), N=128)


os.environ[BUILDS_VARIABLE] = sys.argv[1]
engine = PtxComparisonEngine()
engine.prepare()
engine.emulate(catalogue.find("h200"))
launch()
for argument in engine.wrong_arguments():
    with engine.looking_into(InquiryRequest(kernel="raised", argument=argument, limit_s=60.0)) as inquiry:
        launch()
    print(argument, inquiry.result.first or inquiry.result.first_unknown)
