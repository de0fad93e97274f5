"""Kernels that name what Triton lacks, or call it wrongly."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportAttributeAccessIssue=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportCallIssue=false

import triton
import triton.language as tl


@triton.jit
def missing_function(x):
    tl.store(x, tl.no_such_function(1.0))


@triton.jit
def missing_method(x):
    tl.store(x, tl.load(x).no_such_method())


@triton.jit
def block_pointer(x):
    pointer = tl.make_block_ptr(x, (16,), (1,), (0,), (16,), (0,))
    tl.store(pointer, tl.load(pointer))


@triton.jit
def wrong_keyword(x):
    tl.store(x, tl.load(x, no_such_keyword=1))
