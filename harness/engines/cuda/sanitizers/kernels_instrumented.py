"""Self-test kernels for Triton's sanitizers: each makes one mistake, whose report proves that the sanitizer works."""

# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# Triton reads annotations as its own.
import importlib
from typing import Any

import torch
import triton
import triton.language as tl

from harness.engines.cuda.sanitizers.instrumentation import SELF_TEST_OUTPUT
from harness.engines.cuda.sanitizers.instrumented_builds import memory_pool
from harness.model.triton_sanitizer_report import Instrumentation

LANES = 128


@triton.jit
def harness_self_test_gsan(y, lanes: tl.constexpr):
    """Two programs store to the same cells."""
    tl.store(y + tl.arange(0, lanes), tl.program_id(0))


@triton.jit
def harness_self_test_fpsan(x, y, great, lanes: tl.constexpr):
    """Adds and subtracts a number so large that float32 loses x, and integers do not."""
    lane = tl.arange(0, lanes)
    tl.store(y + lane, (tl.load(x + lane) + great) - great)


def launch_mistake(mode: Instrumentation) -> None:
    """Launch the kernel and wait for it.  GSan's and ConSan's reports destroy the CUDA context of the process."""
    match mode:
        case Instrumentation.GSAN:
            with torch.cuda.use_mem_pool(memory_pool(write_once=True)):
                y = torch.empty(LANES, dtype=torch.int32, device="cuda")
            harness_self_test_gsan[(2,)](y, lanes=LANES)
        case Instrumentation.CONSAN:
            x = torch.zeros(LANES, device="cuda")
            _gluon_kernels().harness_self_test_consan[(1,)](x, torch.empty_like(x))
        case Instrumentation.FPSAN:
            x = torch.ones(LANES, device="cuda")
            y = torch.empty_like(x)
            harness_self_test_fpsan[(1,)](x, y, 2.0**40, lanes=LANES)
            if bool((x == y).all()):
                print(SELF_TEST_OUTPUT)  # noqa: T201 - its parent reads it
    torch.cuda.synchronize()


def _gluon_kernels() -> Any:
    """Import the kernel in Gluon: Triton itself inserts the waits, and Gluon differs between releases."""
    return importlib.import_module("harness.engines.cuda.sanitizers.kernels_gluon")
