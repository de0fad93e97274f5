"""Twice x through descriptors that the kernel makes, after a tuner has measured the kernel in a thread of its own."""

from contextlib import suppress
from contextvars import Context, copy_context
from queue import SimpleQueue
from threading import Thread

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def double_kernel(x, y, T, D: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK
    rows_x = tl.make_tensor_descriptor(x, shape=[T, D], strides=[D, 1], block_shape=[BLOCK, D])
    rows_y = tl.make_tensor_descriptor(y, shape=[T, D], strides=[D, 1], block_shape=[BLOCK, D])
    rows_y.store([i, 0], 2.0 * rows_x.load([i, 0]))


def launch(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.shape[0], BLOCK),)](x, y, x.shape[0], D=x.shape[1], BLOCK=BLOCK)
    return y


def tune(x: torch.Tensor, context: Context) -> torch.Tensor:
    """Measure the kernel in a thread, and wait for the thread's answer."""
    answers: SimpleQueue[torch.Tensor] = SimpleQueue()

    def measure() -> None:
        with suppress(Exception):  # the rule that is emulated
            answers.put(launch(x))

    Thread(target=context.run, args=(measure,), name="tuner", daemon=True).start()
    return answers.get()


def doubled(x: torch.Tensor, *, copies_context: bool) -> torch.Tensor:
    x = x.clone(memory_format=torch.contiguous_format)  # descriptors need addresses aligned to 16 bytes

    def scratch(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        del alignment, stream
        return x.new_empty(size, dtype=torch.int8)

    def run() -> torch.Tensor:
        triton.set_allocator(scratch)
        launch(x)
        tune(x, copy_context() if copies_context else Context())
        return launch(x)

    return copy_context().run(run)  # later cases in this process must not find the allocator
