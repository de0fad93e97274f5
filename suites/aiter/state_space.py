"""Layers of aiter that keep a state: short convolutions, and the gated delta rule, step by step and in chunks."""

from itertools import pairwise

from harness.suite import Dim, Draw, DType, beside, groups, integers, op, segments, tensor, tokens

LIBRARY = {"requires": ("amd-aiter",), "stubs": {"aiter": "aiter_stubs.py"}}
ABSENT = -1
"""The slot of a request that pads the batch."""


def activated(y, activation):
    return y * y.sigmoid() if activation else y


def of_present(bounds, slots, T, D):
    import torch

    rows = (slots != ABSENT).repeat_interleave(bounds.diff())
    return torch.nn.functional.pad(rows, (0, T - len(rows)))[None].expand(D, T), None


CHANNELS = {
    "T": Dim(low=1, high=300),
    "N": Dim(low=1, high=4),
    "D": Dim(low=1, high=300),
    "W": groups(2, 3, 4),
    "P": Dim(low=4, high=12),
}
OF_CHANNELS = {
    "weight": tensor("D", "W", grad=False, contiguous=True),
    "bias": tensor("D", grad=False, optional=True, contiguous=True),
    "states": tensor("P", "W-1", "D", grad=False, contiguous="rows"),
}


@op(
    **LIBRARY,
    dims=CHANNELS,
    inputs={
        "x": tensor("T", "D", grad=False, contiguous="rows"),
        **OF_CHANNELS,
        "bounds": segments("T", "N", dtype="int32", contiguous=True),
        "slots": integers("N", high="P", distinct=True, ignore=ABSENT, dtype="int32", contiguous=True),
        "begun": integers("N", high=2, dtype="bool", contiguous=True),
    },
    options={"activation": ("silu", None)},
    where=lambda at: at["N"] <= at["T"],
    defined=of_present,
)
def convolution(x, weight, bias, states, bounds, slots, begun, activation):
    """Each request begins with its state or with zeros, and leaves its last inputs as its state."""
    from aiter.ops.triton.conv.causal_conv1d import causal_conv1d_fn

    states = states.clone().mT
    lengths = bounds.diff().tolist()
    return causal_conv1d_fn(x.T, weight, bias, states, bounds, lengths, slots, begun, activation), states


@convolution.reference
def convolution_reference(x, weight, bias, states, bounds, slots, begun, activation):
    import torch

    states, before = states.clone().mT, weight.shape[1] - 1
    outputs = []
    for n, (at, to) in enumerate(pairwise(bounds.tolist())):
        slot = int(slots[n])
        history = states[slot] * begun[n] if slot != ABSENT else x.new_zeros(x.shape[1], before)
        whole = torch.cat((history, x[at:to].T), 1)
        outputs.append(activated(convolved(whole, weight, bias), activation))
        if slot != ABSENT:
            states = states.index_put((torch.tensor(slot),), whole[:, -before:])
    outputs.append(x.new_zeros(x.shape[1], len(x) - int(bounds[-1])))
    return torch.cat(outputs, 1), states


def convolved(x, weight, bias):
    """Return the products of each channel's windows with its weights; x is `(..., D, T)`."""
    y = (x.unfold(-1, weight.shape[1], 1) * weight[:, None]).sum(-1)
    return y if bias is None else y + bias[:, None]


@op(
    **LIBRARY,
    dims={**CHANNELS, "T": groups(1, 2, 4)},
    inputs={
        "x": tensor("N", "D", "T", grad=False, contiguous=True),
        **OF_CHANNELS,
        "slots": integers("N", high="P", distinct=True, dtype="int32", contiguous=True),
    },
    options={"activation": ("silu", None)},
)
def convolution_step(x, weight, bias, states, slots, activation):
    from aiter.ops.triton.conv.causal_conv1d import causal_conv1d_update

    states = states.clone().mT
    return causal_conv1d_update(x.clone(), states, weight, bias, activation, conv_state_indices=slots), states


@convolution_step.reference
def convolution_step_reference(x, weight, bias, states, slots, activation):
    import torch

    whole = torch.cat((states.mT[slots.long()], x), -1)
    after = states.mT.index_put((slots.long(),), whole[..., 1 - weight.shape[1] :])
    return activated(convolved(whole, weight, bias), activation), after


SEQUENCES = {
    **LIBRARY,
    "dims": {
        "B": Dim(low=1, high=3),
        "T": tokens(150, grows=False),
        "H": groups(1, 2, 3),
        "R": groups(1, 2),
        "K": groups(64, 128, 32),
        "V": groups(64, 128, 32),
    },
    "contiguous": True,
    "apart": ("B",),
}
HEADS = {
    "q": tensor("B", "T", "H", "K", grad=False),
    "k": tensor("B", "T", "H", "K", grad=False, draw=Draw.NORMALISED),
    "v": tensor("B", "T", "H*R", "V", grad=False),
    "g": tensor("B", "T", "H*R", grad=False, draw=Draw.LOG_UNIT, dtype=DType.FP32),
    "beta": tensor("B", "T", "H*R", grad=False, draw=Draw.UNIT),
    "state": tensor("B", "H*R", "K", "V", grad=False, optional=True, dtype=DType.FP32),
}


def definition(q, k, v, g, beta, state):
    recurrences = beside(__file__, "../fla/definitions/_recurrences.py")
    q, k = (recurrences.shared(x, v.shape[2]) for x in (recurrences.scaled(q, None), k))
    state = None if state is None else state.to(q.dtype)
    return recurrences.delta(q, k, v, beta.unsqueeze(-1), g.to(q.dtype).unsqueeze(-1), state)


@op(**SEQUENCES, inputs=HEADS)
def gated_delta_rule_by_steps(q, k, v, g, beta, state):
    from aiter.ops.triton.gated_delta_net.gated_delta_rule import fused_recurrent_gated_delta_rule

    return fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, initial_state=state, output_final_state=True)


@gated_delta_rule_by_steps.reference
def gated_delta_rule_by_steps_reference(q, k, v, g, beta, state):
    return definition(q, k, v, g, beta, state)


@op(
    **{**SEQUENCES, "dims": {**SEQUENCES["dims"], "R": groups(1)}},
    inputs=HEADS,
    dtypes=(DType.BF16, DType.FP16),
)
def gated_delta_rule_in_chunks(q, k, v, g, beta, state):
    from aiter.ops.triton.gated_delta_net.gated_delta_rule import chunk_gated_delta_rule

    return chunk_gated_delta_rule(q, k, v, g, beta, initial_state=state, output_final_state=True)


@gated_delta_rule_in_chunks.reference
def gated_delta_rule_in_chunks_reference(q, k, v, g, beta, state):
    return definition(q, k, v, g, beta, state)
