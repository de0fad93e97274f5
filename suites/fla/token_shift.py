"""The token shift of flash-linear-attention: the previous token minus the token, in batches and packed sequences."""

from harness.suite import Dim, op, segments, tensor, tokens, width

LIBRARY = (("fla-core", "flash-linear-attention"),)
LONG = tokens(9000)
"""Beyond 4096 tokens the library uses other kernels."""


@op(
    requires=LIBRARY,
    dims={"B": Dim(low=1, high=6), "T": LONG, "D": width(512)},
    inputs={"x": tensor("B", "T", "D"), "cache": tensor("B", "D", optional=True)},
    options={"output_cache": (False, True)},
    independent=("B",),
)
def token_shift(x, cache, output_cache):
    from fla.modules.token_shift import token_shift as shift

    return shift(x, cache=cache, output_cache=output_cache)


@token_shift.reference
def token_shift_reference(x, cache, output_cache):
    y, last = shifted(x, cache)
    return (y, last) if output_cache else y


@op(
    requires=LIBRARY,
    dims={"T": LONG, "N": Dim(low=1, high=64), "D": width(256)},
    inputs={
        "x": tensor(1, "T", "D"),
        "cu_seqlens": segments("T", "N"),
        "cache": tensor("N", "D", optional=True),
    },
    options={"output_cache": (False, True)},
    where=lambda at: at["N"] <= at["T"],
    sequences="cu_seqlens",
)
def token_shift_varlen(x, cu_seqlens, cache, output_cache):
    from fla.modules.token_shift import token_shift as shift

    return shift(x, cu_seqlens, cache=cache, output_cache=output_cache)


@token_shift_varlen.reference
def token_shift_varlen_reference(x, cu_seqlens, cache, output_cache):
    import torch

    first, last = cu_seqlens[:-1], cu_seqlens[1:] - 1
    rows = x[0]
    cache = rows.new_zeros(len(first), rows.shape[1]) if cache is None else cache
    before = torch.cat((rows.new_zeros(1, rows.shape[1]), rows[:-1])).index_copy(0, first, cache)
    y = (before - rows)[None]
    return (y, rows[last]) if output_cache else y


def shifted(x, cache):
    """The previous token minus each token, and the last token of each sequence."""
    import torch

    cache = torch.zeros_like(x[:, 0]) if cache is None else cache
    return torch.cat((cache[:, None], x[:, :-1]), 1) - x, x[:, -1]
