"""Kernels with one mistake each, for Triton's sanitizers to report: each is the least that shows that they watch."""

# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# Triton reads annotations as its own.
import importlib
from typing import Any

import torch
import triton
import triton.language as tl

from harness.cuda.instrumented_builds import pool
from harness.model.instrumented import Instrumentation

LANES = 128


@triton.jit
def harness_witness_gsan(y, lanes: tl.constexpr):
    """Two programs store to the same cells."""
    tl.store(y + tl.arange(0, lanes), tl.program_id(0))


def err(mode: Instrumentation) -> None:
    """Launch the kernel of the sanitizer and wait for it; the process has no CUDA context any more after it."""
    match mode:
        case Instrumentation.GSAN:
            with torch.cuda.use_mem_pool(pool(write_once=True)):
                y = torch.empty(LANES, dtype=torch.int32, device="cuda")
            harness_witness_gsan[(2,)](y, lanes=LANES)
        case Instrumentation.CONSAN:
            x = torch.zeros(LANES, device="cuda")
            _gluon().harness_witness_consan[(1,)](x, torch.empty_like(x))
    torch.cuda.synchronize()


def _gluon() -> Any:
    """Triton itself waits for its copies: only its lower language can forget to, and that differs by release."""
    return importlib.import_module("harness.cuda.kernels_gluon")
