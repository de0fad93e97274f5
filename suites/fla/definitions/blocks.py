"""Recurrences in blocks of steps, with their gradients written out.

A loop over blocks computes the states and, backward, the gradients of the states.  All else is one operation for all
blocks.  Autograd of the same formulas takes twice as many operations.

Rows are `[B, T, H, D]` outside of the functions.  Inside they are `[R, C, D]`, with R blocks of all batches and heads,
and C steps in a block.  States are `[N, K, V]`, and N counts batches and heads.  Gates are logarithms of decays, one
for each head, `[…, 1]`, or for each channel of keys, `[…, K]`.

The gradient of a gate is a difference, as `recurrences` explains: with G the sum of all gates so far, reads depend on
G, and writes on -G.
"""

from collections.abc import Sequence
from typing import Any, Self

import torch

BLOCK = 8
"""The steps of a block if each channel has a gate: their decays are as many numbers for each step."""
BLOCK_OF_HEADS = 16
"""The steps of a block if a head has one gate."""


class Additive(torch.autograd.Function):
    """`S_t = exp(g_t) * S_{t-1} + k_t v_t'`.  Within a block, a query reads each key by itself."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        *rows, start = arguments
        q, k, v, gates = blocks_of(rows, size_for(rows[-1]))
        decays = Decays.of(gates)
        scores, changes = decays.products(q, k), torch.bmm((k * decays.until).mT, v)
        after = states(decays.totals(len(start)), changes.unflatten(0, (len(start), -1)), start)
        before = torch.cat([start.unsqueeze(1), after[:, :-1]], 1).flatten(0, 1)
        o = torch.bmm(scores, v) + torch.bmm(q * decays.since, before)
        ctx.save_for_backward(q, k, v, scores, before, after[:, -1], *decays.tensors)
        return (*steps_of([o], rows[0].shape), after[:, -1])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        q, k, v, scores, before, last, *kept = ctx.saved_tensors
        decays, (d_o,), d_last = Decays(*kept), blocks_of(gradients[:1], q.shape[1]), gradients[1]
        d_q, d_k = decays.gradients(torch.bmm(d_o, v.mT), q, k)
        reads = torch.bmm((q * decays.since).mT, d_o).unflatten(0, (len(d_last), -1))
        d_states = states_backwards(decays.totals(len(d_last)), reads, d_last)
        d_after = torch.cat([d_states[:, 1:], d_last.unsqueeze(1)], 1).flatten(0, 1)
        d_q = torch.addcmul(d_q, torch.bmm(d_o, before.mT), decays.since)
        d_k = torch.addcmul(d_k, torch.bmm(v, d_after.mT), decays.until)
        d_v = torch.bmm(scores.mT, d_o) + torch.bmm(k * decays.until, d_after)
        d_sums = decays.summed(d_q * q) - decays.summed(d_k * k)
        d_q, d_k, d_v, d_sums = steps_of([d_q, d_k, d_v, d_sums], gradients[0].shape)
        return d_q, d_k, d_v, gate_gradients(d_sums, d_last * last), d_states[:, 0]


class Delta(torch.autograd.Function):
    """`S = exp(g_t) * S_{t-1}`, then `S_t = S + k_t (beta_t (v_t - k_t S))'`.

    With S the state before a block, its changes solve `(I + L) U = beta (V - exp(G) K S)`, where G sums the gates of
    the block so far, and L holds `beta_t k_t . k_s exp(G_t - G_s)` for s < t.
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        *rows, start = arguments
        q, k, v, beta, gates = blocks_of(rows, size_for(rows[-1]))
        decays = Decays.of(gates)
        products, right = decays.products(k, k), torch.cat([k * decays.since, v], -1)
        solved = solve(beta * products, beta * right)
        reads, values = (each.unflatten(0, (len(start), -1)) for each in solved.split((k.shape[-1], v.shape[-1]), -1))
        keys = (k * decays.until).mT.unflatten(0, (len(start), -1))
        state, before, changes = start, [], []
        for read, value, key, decay in zip(
            *(each.unbind(1) for each in (reads, values, keys, decays.wholes(len(start)))), strict=True
        ):
            before.append(state)
            changes.append(torch.baddbmm(value, read, state, alpha=-1))
            state = torch.baddbmm(state * decay, key, changes[-1])
        scores, u, s = decays.products(q, k), *(torch.stack(each, 1).flatten(0, 1) for each in (changes, before))
        o = torch.bmm(scores, u) + torch.bmm(q * decays.since, s)
        ctx.save_for_backward(q, k, beta, products, right, solved, scores, u, s, state, *decays.tensors)
        return (*steps_of([o], rows[0].shape), state)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        q, k, beta, products, right, solved, scores, u, s, last, *kept = ctx.saved_tensors
        decays, (d_o,), d_state = Decays(*kept), blocks_of(gradients[:1], q.shape[1]), gradients[1]
        sequences = (len(d_state), -1)
        columns = (
            torch.bmm(scores.mT, d_o),
            k * decays.until,
            torch.bmm((q * decays.since).mT, d_o),
            solved[..., : k.shape[-1]].mT,
        )
        rows = zip(
            *(each.unflatten(0, sequences).unbind(1) for each in columns),
            decays.wholes(len(d_state)).unbind(1),
            strict=True,
        )
        d_states, d_changes = [], []
        for d_change, key, read_later, read, decay in reversed(list(rows)):
            d_states.append(d_state)
            d_changes.append(torch.baddbmm(d_change, key, d_state))
            d_state = torch.baddbmm(torch.addcmul(read_later, d_state, decay), read, d_changes[-1], alpha=-1)
        d_s, d_u = (torch.stack(each[::-1], 1).flatten(0, 1) for each in (d_states, d_changes))
        d_right = solve(beta * products, torch.cat([torch.bmm(d_u, s.mT).neg(), d_u], -1), transposed=True)
        d_products = torch.bmm(d_right, solved.mT).neg().tril(-1)
        d_beta = (d_right * right).sum(-1, keepdim=True) + (d_products * products).sum(-1, keepdim=True)
        d_reads, d_k = decays.gradients(beta * d_products, k, k)
        d_q, d_k_too = decays.gradients(torch.bmm(d_o, u.mT), q, k)
        d_read, d_v = (beta * d_right).split((k.shape[-1], u.shape[-1]), -1)
        d_q = torch.addcmul(d_q, torch.bmm(d_o, s.mT), decays.since)
        d_reads = torch.addcmul(d_reads, d_read, decays.since)
        d_k = torch.addcmul(d_k + d_k_too, torch.bmm(u, d_s.mT), decays.until)
        d_sums = decays.summed(d_q * q) + decays.summed(d_reads * k) - decays.summed(d_k * k)
        d_q, d_k, d_v, d_beta, d_sums = steps_of([d_q, d_reads + d_k, d_v, d_beta, d_sums], gradients[0].shape)
        return d_q, d_k, d_v, d_beta, gate_gradients(d_sums, gradients[1] * last), d_state


class Decays:
    """The decays within blocks, of heads `[…, 1]` or of their channels `[…, K]`."""

    def __init__(self, gates: torch.Tensor, since: torch.Tensor, pairs: torch.Tensor) -> None:
        self._gates, self._pairs = gates, pairs
        self.since = since
        """The decay from the block's begin to each step: `[R, C, K]`."""
        self.until = pairs[..., -1, :].mT
        """The decay from each step to the block's end."""

    @classmethod
    def of(cls, gates: torch.Tensor) -> Self:
        """Return the decays by gates `[R, C, K]`."""
        return cls(gates, gates.cumsum(1).exp(), pairs(gates))

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """What makes an equal object."""
        return self._gates, self.since, self._pairs

    def totals(self, sequences: int) -> torch.Tensor:
        """Return the sums of gates by sequence and block: `[N, M, K]`."""
        return self._gates.sum(1).unflatten(0, (sequences, -1))

    def wholes(self, sequences: int) -> torch.Tensor:
        """Return the decays of whole blocks by sequence: `[N, M, K, 1]`."""
        return self.since[:, -1].unflatten(0, (sequences, -1)).unsqueeze(-1)

    def products(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return `x_t . y_s` with the decay from s to t, for s <= t, else 0: `[R, C, C]` at [t, s]."""
        if self._pairs.shape[1] == 1:
            return torch.bmm(x, y.mT) * self._pairs.squeeze(1)
        return (x.mT.unsqueeze(-1) * y.mT.unsqueeze(-2) * self._pairs).sum(1)

    def gradients(self, of_products: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the gradients of x and y by those of their products."""
        if self._pairs.shape[1] == 1:
            decayed = of_products * self._pairs.squeeze(1)
            return torch.bmm(decayed, y), torch.bmm(decayed.mT, x)
        decayed = of_products.unsqueeze(1) * self._pairs
        return (decayed * y.mT.unsqueeze(-2)).sum(-1).mT, (decayed * x.mT.unsqueeze(-1)).sum(-2).mT

    def summed(self, channels: torch.Tensor) -> torch.Tensor:
        """Return the gradients of gates by those of their channels."""
        return channels.sum(-1, keepdim=True) if self._gates.shape[-1] == 1 else channels


def gate_gradients(d_sums: torch.Tensor, d_last: torch.Tensor) -> torch.Tensor:
    """Return the gradients of gates `[B, T, H, K]` by those of their sums so far, and of the last ones `[N, K, V]`."""
    batch, _, heads, gates = d_sums.shape
    in_last = d_last.sum(-1) if gates > 1 else d_last.sum((1, 2))
    return d_sums.flip(1).cumsum(1).flip(1) + in_last.view(batch, 1, heads, gates)


def size_for(gates: torch.Tensor) -> int:
    """Return the number of steps in a block."""
    return BLOCK_OF_HEADS if gates.shape[-1] == 1 else BLOCK


def solve(lower: torch.Tensor, right: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
    """Return the solution X of `(I + L) X = R`, or of the transposed system; L is `lower` below its diagonal."""
    matrix = lower.mT if transposed else lower
    wide = torch.promote_types(right.dtype, torch.float32)  # torch solves nothing in 16 bits
    solved = torch.linalg.solve_triangular(matrix.to(wide), right.to(wide), upper=transposed, unitriangular=True)
    return solved.to(right.dtype)


def states(log_decay: torch.Tensor, changes: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """All `S_m = exp(g_m) * S_{m-1} + C_m`, of g `[N, M, K]` and C `[N, M, K, V]`, from `[N, K, V]`."""
    length = changes.shape[1]
    if length <= BLOCK * BLOCK:
        found = [start]
        for decay, change in zip(log_decay.exp().unsqueeze(-1).unbind(1), changes.unbind(1), strict=True):
            found.append(torch.addcmul(change, found[-1], decay))
        return torch.stack(found[1:], 1)
    gates, inner = padded(log_decay), padded(changes).transpose(2, 3)
    inner = (pairs(gates) @ inner).transpose(2, 3)
    after = states(gates.sum(2), inner[:, :, -1], start)
    before = torch.cat([start.unsqueeze(1), after[:, :-1]], 1)
    return (inner + gates.cumsum(2).exp().unsqueeze(-1) * before.unsqueeze(2)).flatten(1, 2)[:, :length]


def states_backwards(log_decay: torch.Tensor, changes: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    """All `S_m = exp(g_m) * S_{m+1} + C_m`, from the last one on."""
    return states(log_decay.flip(1), changes.flip(1), last).flip(1)


def pairs(log_decay: torch.Tensor) -> torch.Tensor:
    """`exp(g_{s+1} + … + g_t)` for s <= t, else 0, of g `[…, C, K]`: `[…, K, C, C]` at [t, s], summed from s on."""
    size = log_decay.shape[-2]
    reached = torch.ones(size, size, dtype=torch.bool).tril()
    sums = torch.where(reached.tril(-1), log_decay.mT.unsqueeze(-1), 0.0).cumsum(-2)
    return torch.where(reached, sums.exp(), 0.0)


def blocks_of(rows: Sequence[torch.Tensor], size: int) -> tuple[torch.Tensor, ...]:
    """Return `[B, T, H, D]` as blocks `[R, C, D]`; zeros fill the last one of a sequence."""
    together = torch.cat(list(rows), -1) if len(rows) > 1 else rows[0]
    blocks = padded(together.transpose(1, 2).flatten(0, 1), size).flatten(0, 1)
    return blocks.split([each.shape[-1] for each in rows], -1)


def steps_of(blocks: Sequence[torch.Tensor], shape: torch.Size) -> tuple[torch.Tensor, ...]:
    """Return `[R, C, D]` as `[B, T, H, D]`, where B, T and H are those of a shape."""
    batch, length, heads, _ = shape
    together = torch.cat(list(blocks), -1) if len(blocks) > 1 else blocks[0]
    steps = together.view(batch, heads, -1, together.shape[-1])[:, :, :length].transpose(1, 2)
    return steps.split([each.shape[-1] for each in blocks], -1)


def padded(x: torch.Tensor, size: int = BLOCK) -> torch.Tensor:
    """`[N, M, …]` as `[N, M / size, size, …]`; zeros fill the last block."""
    missing = -x.shape[1] % size
    if missing:
        x = torch.cat([x, x.new_zeros(x.shape[0], missing, *x.shape[2:])], 1)
    return x.unflatten(1, (-1, size))
