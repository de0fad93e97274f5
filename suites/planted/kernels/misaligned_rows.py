"""Twice x through descriptors that the kernel makes; a host option aligns the rows to 16 bytes."""

from contextvars import copy_context

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def double_kernel(x, y, T, D, stride, BLOCK: tl.constexpr):
    i, j = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    rows_x = tl.make_tensor_descriptor(x, shape=[T, D], strides=[stride, 1], block_shape=[BLOCK, BLOCK])
    rows_y = tl.make_tensor_descriptor(y, shape=[T, D], strides=[stride, 1], block_shape=[BLOCK, BLOCK])
    rows_y.store([i, j], 2.0 * rows_x.load([i, j]))


def launched(x: torch.Tensor, y: torch.Tensor, columns: int) -> torch.Tensor:
    def scratch(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        del alignment, stream
        return torch.empty(size, dtype=torch.int8, device=x.device)

    def launch() -> None:
        triton.set_allocator(scratch)
        rows = x.shape[0]
        grid = (triton.cdiv(rows, BLOCK), triton.cdiv(columns, BLOCK))
        double_kernel[grid](x, y, rows, columns, x.stride(0), BLOCK=BLOCK)

    copy_context().run(launch)  # later cases in this process must not find the allocator
    return y


def padded(rows: int, columns: int, device: torch.device) -> torch.Tensor:
    """Pad rows so that they start at multiples of 16 bytes."""
    return torch.empty(rows, triton.cdiv(columns, 4) * 4, device=device)


def double(x: torch.Tensor) -> torch.Tensor:
    x = x.clone(memory_format=torch.contiguous_format)
    return launched(x, torch.empty_like(x), x.shape[1])


def double_padded(x: torch.Tensor) -> torch.Tensor:
    rows, columns = x.shape
    inputs, outputs = padded(rows, columns, x.device), padded(rows, columns, x.device)
    inputs[:, :columns] = x
    # The kernel gets the padding too, because stores of the TMA engine end at multiples of 16 bytes.
    return launched(inputs, outputs, columns)[:, :columns].contiguous()
