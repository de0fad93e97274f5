"""Kernels with one mistake each, for Triton's sanitizers to report: each is the least that shows that they watch."""

# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# Triton reads annotations as its own.
import importlib
from typing import Any

import torch
import triton
import triton.language as tl

from harness.cuda.sanitizers.instrumentation import TESTIMONY
from harness.cuda.sanitizers.instrumented_builds import pool
from harness.model.triton_sanitizer_report import Instrumentation

LANES = 128


@triton.jit
def harness_witness_gsan(y, lanes: tl.constexpr):
    """Two programs store to the same cells."""
    tl.store(y + tl.arange(0, lanes), tl.program_id(0))


@triton.jit
def harness_witness_fpsan(x, y, great, lanes: tl.constexpr):
    """Adds what is so great that a float32 forgets the rest, and takes it away again."""
    lane = tl.arange(0, lanes)
    tl.store(y + lane, (tl.load(x + lane) + great) - great)


def err(mode: Instrumentation) -> None:
    """Launch the kernel of the sanitizer and wait for it; the process has no CUDA context any more after most."""
    match mode:
        case Instrumentation.GSAN:
            with torch.cuda.use_mem_pool(pool(write_once=True)):
                y = torch.empty(LANES, dtype=torch.int32, device="cuda")
            harness_witness_gsan[(2,)](y, lanes=LANES)
        case Instrumentation.CONSAN:
            x = torch.zeros(LANES, device="cuda")
            _gluon().harness_witness_consan[(1,)](x, torch.empty_like(x))
        case Instrumentation.FPSAN:
            x = torch.ones(LANES, device="cuda")
            y = torch.empty_like(x)
            harness_witness_fpsan[(1,)](x, y, 2.0**40, lanes=LANES)
            if bool((x == y).all()):
                print(TESTIMONY)  # noqa: T201 - its parent reads it
    torch.cuda.synchronize()


def _gluon() -> Any:
    """Triton itself waits for its copies: only its lower language can forget to, and that differs by release."""
    return importlib.import_module("harness.cuda.sanitizers.kernels_gluon")
