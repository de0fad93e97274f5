"""Twice x, where a ticket selects the tile to store; a host option selects the tile to load by ticket or program id."""

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def double_kernel(x, y, tickets, T, BY_TICKET: tl.constexpr, BLOCK: tl.constexpr):
    ticket = tl.atomic_add(tickets, 1)
    i = ticket if BY_TICKET else tl.program_id(0)
    o_x = i * BLOCK + tl.arange(0, BLOCK)
    o_y = ticket * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o_x, mask=o_x < T, other=0.0)
    tl.store(y + o_y, 2.0 * b_x, mask=o_y < T)


def double(x: torch.Tensor, *, by_ticket: bool) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    tickets = torch.zeros(1, dtype=torch.int32, device=x.device)
    double_kernel[(triton.cdiv(x.shape[0], BLOCK),)](x, y, tickets, x.shape[0], BY_TICKET=by_ticket, BLOCK=BLOCK)
    return y
