"""Linear recurrences with decay, defined in elementary torch; the suites of fla-core share them.

Sequences are `[B, T, H, D]`, states `[B, H, K, V]`, and every function returns the outputs `[B, T, H, V]` with the last
state.  A state is a matrix S, and queries read it: `o_t = q_t S_t`.  The functions differ in how S_t follows from
S_{t-1}.  Loops run over time only; batch and heads are one axis of matrix products.  `blocks` computes the usual ones
with loops over blocks of time.

A gate's gradient is a sum over all pairs of positions around it.  Kernels compute it as a difference: with G the sum of
all gates so far, the decay from s to t is `exp(G_t) exp(-G_s)`.  Reads depend on G_t, and writes on -G_s.  Both parts
cancel, entirely at the first gate of a sequence, and leave rounding errors that a sum over pairs would not explain.  So
the definitions compute gradients the same way (`factored`).  Values come from the gates themselves and never overflow.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch

from harness.suite import beside

Pair = tuple[torch.Tensor, torch.Tensor]
SHORT = 2
"""Sequences of more steps are computed in blocks, where the definition knows how."""


def scale_of(q: torch.Tensor, scale: float | None) -> float:
    """The scale of scores: `1/sqrt(K)` for None."""
    return q.shape[-1] ** -0.5 if scale is None else scale


def scaled(q: torch.Tensor, scale: float | None) -> torch.Tensor:
    """Queries times the scale."""
    return q * scale_of(q, scale)


def normalised(x: torch.Tensor) -> torch.Tensor:
    """Divide rows by their Euclidean norm."""
    return x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()


def softplus(x: torch.Tensor) -> torch.Tensor:
    """`log(1 + exp(x))`, without overflow."""
    return torch.logaddexp(x, torch.zeros_like(x))


def shared(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Repeat the heads of queries or keys for `heads` heads of values; consecutive ones share a head."""
    return x if x.shape[2] == heads else x.repeat_interleave(heads // x.shape[2], 2)


def packed(
    one: Callable[..., Pair], sequences: tuple[torch.Tensor | None, ...], state: torch.Tensor | None, ends: torch.Tensor
) -> Pair:
    """Apply a function to each sequence that is packed along time, with its state."""
    made = [
        one(*(None if x is None else x[:, begin:end] for x in sequences), None if state is None else state[n : n + 1])
        for n, (begin, end) in enumerate(pairwise(ends.tolist()))
    ]
    return torch.cat([o for o, _ in made], 1), torch.cat([last for _, last in made], 0)


def additive(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    log_decay: torch.Tensor | None,
    state: torch.Tensor | None,
    *,
    value_decay: torch.Tensor | None = None,
    bonus: torch.Tensor | None = None,
) -> Pair:
    """`S_t = exp(g_t) * S_{t-1} + k_t v_t'`, g of keys' channels `[B, T, H, K]`, and of values' `value_decay`.

    With a `bonus` u `[H, K]`, a query reads the past, and its own key times u.
    """
    if q.shape[1] > SHORT and value_decay is None and bonus is None:
        o, last = in_blocks().Additive.apply(q, k, v, gates_of(log_decay, k), first(q, v, state))
        return o, by_head(last, q)
    reads, writes, values, last_sum, last_value_sum = q, k, v, None, None
    if log_decay is not None:
        log_decay, sums = factored(log_decay)
        reads, writes = q * (sums if bonus is None else earlier(sums)).exp(), k * (-sums).exp()
        last_sum = sums[:, -1]
    current = first(q, v, state)
    if value_decay is not None:
        value_decay, value_sums = factored(value_decay)
        values, last_value_sum = v * (-value_sums).exp(), value_sums[:, -1]
    rows = zip(
        over_time(reads, 1),
        over_time(writes, 2),
        over_time(values, 1),
        over_time(None if log_decay is None else log_decay.exp(), 2, q.shape[1]),
        over_time(None if value_decay is None else value_decay.exp(), 1, q.shape[1]),
        strict=True,
    )
    outputs: list[torch.Tensor] = []
    for query, key, value, decay, decay_of_values in rows:
        if bonus is not None:
            outputs.append(query @ current)
        current = current if decay is None else current * decay
        current = current if decay_of_values is None else current * decay_of_values
        current = torch.baddbmm(current, key, value)
        if bonus is None:
            outputs.append(query @ current)
    o, last = gathered(outputs, current, q)
    if last_value_sum is not None:
        o, last = o * value_sums.exp(), last * last_value_sum.exp().unsqueeze(2)
    if last_sum is not None:
        last = last * last_sum.exp().unsqueeze(3)
    return (o if bonus is None else o + (q * bonus * k).sum(-1, keepdim=True) * v), last


def delta(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    beta: torch.Tensor,
    log_decay: torch.Tensor | None,
    state: torch.Tensor | None,
) -> Pair:
    """`S = exp(g_t) * S_{t-1}`, then `S_t = S + k_t (beta_t (v_t - k_t S))'`, which replaces the value at a key.

    `beta` is `[B, T, H, 1]` or `[B, T, H, V]`, g `[B, T, H, 1]` or `[B, T, H, K]`.
    """
    if q.shape[1] > SHORT and beta.shape[-1] == 1:
        o, last = in_blocks().Delta.apply(q, k, v, beta, gates_of(log_decay, k), first(q, v, state))
        return o, by_head(last, q)
    queries, reads, writes, last_sum = q, k, k, None
    if log_decay is not None:
        log_decay, sums = factored(log_decay)
        queries, reads, writes, last_sum = q * sums.exp(), k * sums.exp(), k * (-sums).exp(), sums[:, -1]
    current = first(q, v, state)
    rows = zip(
        over_time(queries, 1),
        over_time(reads, 1),
        over_time(writes, 2),
        over_time(v, 1),
        over_time(beta, 1),
        over_time(None if log_decay is None else log_decay.exp(), 2, q.shape[1]),
        strict=True,
    )
    outputs: list[torch.Tensor] = []
    for query, key, key_column, value, strength, decay in rows:
        current = current if decay is None else current * decay
        change = torch.baddbmm(value, key, current, alpha=-1) * strength
        current = torch.baddbmm(current, key_column, change)
        outputs.append(query @ current)
    o, last = gathered(outputs, current, q)
    return o, last if last_sum is None else last * last_sum.exp().unsqueeze(3)


def low_rank(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    log_decay: torch.Tensor,
    state: torch.Tensor | None,
) -> Pair:
    """`S_t = (diag(exp(g_t)) + b_t a_t') S_{t-1} + k_t v_t'`: a diagonal matrix plus a matrix of rank one."""
    current = first(q, v, state)
    log_decay, sums = factored(log_decay)
    rows = zip(
        over_time(q * sums.exp(), 1),
        over_time(k * (-sums).exp(), 2),
        over_time(v, 1),
        over_time(a * earlier(sums).exp(), 1),
        over_time(b * (-sums).exp(), 2),
        over_time(log_decay.exp(), 2),
        strict=True,
    )
    outputs: list[torch.Tensor] = []
    for query, key, value, read, written, decay in rows:
        found = read @ current
        current = torch.baddbmm(torch.baddbmm(current * decay, key, value), written, found)
        outputs.append(query @ current)
    o, last = gathered(outputs, current, q)
    return o, last * sums[:, -1].exp().unsqueeze(3)


def decayed_scores(q: torch.Tensor, k: torch.Tensor, log_decay: torch.Tensor | None) -> torch.Tensor:
    """`q_t . k_s * exp(g_{s+1} + … + g_t)` for s <= t, else 0: `[B, H, T, T]`; g is `[B, T, H]`."""
    scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1)
    if log_decay is not None:
        scores = scores * between(log_decay).exp()
    return torch.where(causal(q.shape[1]), scores, 0.0)


def factored(log_decay: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The gates as constants, and zeros in place of the sums of all gates so far, which carry their gradient."""
    constant = log_decay.detach()
    return constant, (log_decay - constant).cumsum(1)


def earlier(sums: torch.Tensor) -> torch.Tensor:
    """The sums of all earlier gates."""
    return torch.cat([torch.zeros_like(sums[:, :1]), sums[:, :-1]], 1)


def between(log_decay: torch.Tensor) -> torch.Tensor:
    """`g_{s+1} + … + g_t` at [t, s] for s <= t, summed from s on, since differences of long sums would cancel."""
    g = log_decay.transpose(1, 2).unsqueeze(-1)
    return torch.where(causal(g.shape[2], -1), g, 0.0).cumsum(2)


def causal(length: int, diagonal: int = 0) -> torch.Tensor:
    """A mask at [t, s] that is True for s <= t, or for s < t with diagonal -1."""
    return torch.ones(length, length, dtype=torch.bool).tril(diagonal)


def parallel(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, log_decay: torch.Tensor | None, state: torch.Tensor | None
) -> Pair:
    """`S_t = exp(g_t) S_{t-1} + k_t v_t'`, with g `[B, T, H]`, as a sum over all earlier keys."""
    values, g = v.transpose(1, 2), k.new_zeros(k.shape[:3])
    if log_decay is not None:
        g, sums = factored(log_decay)
        q, k = q * sums.exp().unsqueeze(-1), k * (-sums).exp().unsqueeze(-1)
    o = decayed_scores(q, k, None if log_decay is None else g) @ values
    remaining = between(g)[:, :, -1, :].exp()
    last = (k.permute(0, 2, 3, 1) * remaining.unsqueeze(2)) @ values
    if state is not None:
        since = g.transpose(1, 2).cumsum(2).exp().unsqueeze(-1)
        o = o + (q.transpose(1, 2) * since) @ state
        last = last + since[:, :, -1:] * state
    if log_decay is not None:
        last = last * sums[:, -1].exp()[:, :, None, None]
    return o.transpose(1, 2), last


def first(q: torch.Tensor, v: torch.Tensor, state: torch.Tensor | None) -> torch.Tensor:
    """The initial state of the recurrence: `[B * H, K, V]`."""
    batch, _, heads, keys = q.shape
    return q.new_zeros(batch * heads, keys, v.shape[-1]) if state is None else state.flatten(0, 1)


def gates_of(log_decay: torch.Tensor | None, k: torch.Tensor) -> torch.Tensor:
    """The gates of each head or channel; zeros for None."""
    return k.new_zeros(*k.shape[:3], 1) if log_decay is None else log_decay


def by_head(state: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Return `[B * H, K, V]` as `[B, H, K, V]`."""
    return state.unflatten(0, (q.shape[0], q.shape[2]))


def in_blocks() -> Any:
    """The module of recurrences in blocks."""
    return beside(__file__, "blocks.py")


def over_time(x: torch.Tensor | None, axis: int, length: int = 0) -> Iterator[Any]:
    """Yield `[B * H, 1, D]` (axis 1) or `[B * H, D, 1]` (axis 2) for each time, or None `length` times for x = None.

    One `unbind` splits the tensor, so that one operation assembles the gradient.
    """
    if x is None:
        return iter([None] * length)
    return iter(x.transpose(1, 2).flatten(0, 1).unsqueeze(axis + 1).unbind(1))


def gathered(outputs: list[torch.Tensor], last: torch.Tensor, q: torch.Tensor) -> Pair:
    """The outputs of all times and the last state, split by batch and head."""
    o = torch.cat(outputs, 1).unflatten(0, (q.shape[0], q.shape[2])).transpose(1, 2)
    return o, by_head(last, q)
