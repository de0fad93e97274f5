"""The recurrence of RWKV-4 in flash-linear-attention: a weighted average of past values in each channel.

A state holds a numerator, a denominator and the logarithm of their common scale: `[B, 3, 1, C]`.
"""

from harness.suite import Dim, Draw, op, tensor, tokens, width


@op(  # no `requires`: releases before 0.3.2 are not called fla-core, and a missing library shows on import
    dims={"B": Dim(low=1, high=8), "T": tokens(100, grows=False), "C": width(300)},
    inputs={
        "w": tensor("C"),
        "u": tensor("C"),
        "k": tensor("B", "T", "C"),
        "v": tensor("B", "T", "C"),
        "numerator": tensor("B", 1, "C"),
        "denominator": tensor("B", 1, "C", draw=Draw.POSITIVE),
        "exponent": tensor("B", 1, "C"),
    },
)
def fused_recurrent_rwkv4(w, u, k, v, numerator, denominator, exponent):
    import torch
    from fla.ops.rwkv4 import fused_recurrent_rwkv4 as recur

    return recur(w, u, k, v, torch.stack([numerator, denominator, exponent], 1))


@fused_recurrent_rwkv4.reference
def fused_recurrent_rwkv4_reference(w, u, k, v, numerator, denominator, exponent):
    import torch

    a, b, e = numerator[:, 0], denominator[:, 0], exponent[:, 0]
    decay, outputs = -w.exp(), []
    for key, value in zip(k.unbind(1), v.unbind(1), strict=True):
        now = u + key
        top = torch.maximum(now, e)
        before, own = (e - top).exp(), (now - top).exp()
        outputs.append((before * a + own * value) / (before * b + own))
        top = torch.maximum(decay + e, key)
        before, own = (decay + e - top).exp(), (key - top).exp()
        a, b, e = before * a + own * value, before * b + own, top
    return torch.stack(outputs, 1), torch.stack([a, b, e], 1).unsqueeze(2)
