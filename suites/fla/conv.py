"""The short causal convolution of flash-linear-attention: over batches, packed sequences, and single tokens.

A state holds the last W inputs of each sequence, oldest first: `[N, D, W]`.
"""

from itertools import pairwise

from harness.suite import Dim, op, segments, tensor, tokens, width

LIBRARY = (("fla-core", "flash-linear-attention"),)
APART = ("B", "T", "D")
ACTIVATION = {"activation": (None, "silu", "swish")}
SIZES = {
    "B": Dim(low=1, high=6, grows=True, largest=65_535),  # the last axis of a grid
    "T": tokens(1024),
    "D": Dim(low=1, high=512, grows=True, largest=65_536),
    "W": Dim(low=1, high=8),
}
PACKED_SIZES = {"T": tokens(2048), "N": Dim(low=1, high=16), "D": width(256), "W": Dim(low=1, high=8)}
CHANNELS = {"weight": tensor("D", "W"), "bias": tensor("D", optional=True)}
BATCH = {"x": tensor("B", "T", "D"), **CHANNELS, "residual": tensor("B", "T", "D", optional=True)}
PACKED = {
    "x": tensor(1, "T", "D"),
    **CHANNELS,
    "residual": tensor(1, "T", "D", optional=True),
    "cu_seqlens": segments("T", "N"),
}


def enough_tokens(at):
    """Every one of the N sequences has a token, so that there are N states."""
    return at["N"] <= at["T"]


@op(requires=LIBRARY, dims=SIZES, inputs=BATCH, options=ACTIVATION, apart=APART, independent=("B",))
def causal_conv1d(x, weight, bias, residual, activation):
    from fla.modules.convolution import causal_conv1d as convolve

    return first(convolve(x, weight, bias, residual, activation=activation))


@causal_conv1d.reference
def causal_conv1d_reference(x, weight, bias, residual, activation):
    return convolved(x, weight, bias, residual, None, activation)[0]


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={**BATCH, "initial_state": tensor("B", "D", "W", optional=True)},
    options=ACTIVATION,
    apart=APART,
    independent=("B",),
)
def causal_conv1d_with_state(x, weight, bias, residual, initial_state, activation):
    from fla.modules.convolution import causal_conv1d as convolve

    y, state = convolve(
        x, weight, bias, residual, initial_state=initial_state, output_final_state=True, activation=activation
    )
    # Later calls read only W - 1 of the W inputs: the first is padding, according to the kernels' comments
    return y, state[..., 1:]


@causal_conv1d_with_state.reference
def causal_conv1d_with_state_reference(x, weight, bias, residual, initial_state, activation):
    y, state = convolved(x, weight, bias, residual, initial_state, activation)
    return y, state[..., 1:]


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={**BATCH, "initial_state": tensor("B", "D", "W", optional=True)},
    options=ACTIVATION,
    apart=APART,
    independent=("B",),
)
def causal_conv1d_with_whole_state(x, weight, bias, residual, initial_state, activation):
    from fla.modules.convolution import causal_conv1d as convolve

    return convolve(
        x, weight, bias, residual, initial_state=initial_state, output_final_state=True, activation=activation
    )


@causal_conv1d_with_whole_state.reference
def causal_conv1d_with_whole_state_reference(x, weight, bias, residual, initial_state, activation):
    return convolved(x, weight, bias, residual, initial_state, activation)


@op(requires=LIBRARY, dims=PACKED_SIZES, inputs=PACKED, options=ACTIVATION, apart=("T", "D"), sequences="cu_seqlens")
def causal_conv1d_varlen(x, weight, bias, residual, cu_seqlens, activation):
    from fla.modules.convolution import causal_conv1d as convolve

    return first(convolve(x, weight, bias, residual, activation=activation, cu_seqlens=cu_seqlens))


@causal_conv1d_varlen.reference
def causal_conv1d_varlen_reference(x, weight, bias, residual, cu_seqlens, activation):
    return packed(x, weight, bias, residual, None, activation, cu_seqlens)[0]


@op(
    requires=LIBRARY,
    dims=PACKED_SIZES,
    inputs={**PACKED, "initial_state": tensor("N", "D", "W", optional=True)},
    options=ACTIVATION,
    apart=("N", "T", "D"),
    where=enough_tokens,
    sequences="cu_seqlens",
)
def causal_conv1d_varlen_with_state(x, weight, bias, residual, initial_state, cu_seqlens, activation):
    from fla.modules.convolution import causal_conv1d as convolve

    y, state = convolve(
        x,
        weight,
        bias,
        residual,
        initial_state=initial_state,
        output_final_state=True,
        activation=activation,
        cu_seqlens=cu_seqlens,
    )
    return y, state[..., 1:]


@causal_conv1d_varlen_with_state.reference
def causal_conv1d_varlen_with_state_reference(x, weight, bias, residual, initial_state, cu_seqlens, activation):
    y, state = packed(x, weight, bias, residual, initial_state, activation, cu_seqlens)
    return y, state[..., 1:]


@op(
    requires=LIBRARY,
    dims={"N": tokens(512), "D": width(1024), "W": Dim(low=1, high=8)},
    inputs={
        "x": tensor("N", "D", grad=False),
        "cache": tensor("N", "D", "W", grad=False),
        "weight": tensor("D", "W", grad=False),
        "bias": tensor("D", grad=False, optional=True),
        "residual": tensor("N", "D", grad=False, optional=True),
    },
    options={**ACTIVATION, "form": ("rows", "tokens", "packed")},
    apart=("N", "D"),
    independent=("N",),
)
def causal_conv1d_update(x, cache, weight, bias, residual, activation, form):
    from fla.modules.convolution import causal_conv1d_update as update

    axis = {"rows": None, "tokens": 1, "packed": 0}[form]
    if axis is not None:
        x, residual = x.unsqueeze(axis), None if residual is None else residual.unsqueeze(axis)
    y, state = update(x, cache.clone(), residual, weight, bias, activation)  # the library overwrites the cache
    return (y if axis is None else y.squeeze(axis)), state


@causal_conv1d_update.reference
def causal_conv1d_update_reference(x, cache, weight, bias, residual, activation):
    y, state = convolved(x[:, None], weight, bias, None if residual is None else residual[:, None], cache, activation)
    return y[:, 0], state


def convolved(x, weight, bias, residual, state, activation):
    """Weighted sums of the last W inputs of each channel, `[B, T, D]`, and the final state."""
    length, taps = x.shape[1], weight.shape[1]
    past = x.new_zeros(x.shape[0], taps, x.shape[2]) if state is None else state.transpose(1, 2)
    history = cat((past, x))
    y = sum(weight[:, tap] * history[:, tap + 1 : tap + 1 + length] for tap in range(taps))
    y = y if bias is None else y + bias
    y = y if activation is None else y * y.sigmoid()
    y = y if residual is None else y + residual
    return y, history[:, length:].transpose(1, 2)


def packed(x, weight, bias, residual, states, activation, cu_seqlens):
    """The same for packed sequences."""
    bounds = cu_seqlens.tolist()
    made = [
        convolved(
            x[:, begin:end],
            weight,
            bias,
            None if residual is None else residual[:, begin:end],
            None if states is None else states[one : one + 1],
            activation,
        )
        for one, (begin, end) in enumerate(pairwise(bounds))
    ]
    return cat([y for y, _ in made]), cat([state for _, state in made], axis=0)


def cat(parts, axis=1):
    """Concatenate along time, or along another axis."""
    import torch

    return torch.cat(tuple(parts), axis)


def first(returned):
    """The output without the state: old releases return the state None as well, and older ones no state."""
    return returned[0] if isinstance(returned, tuple) else returned
