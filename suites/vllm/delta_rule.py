"""The gated delta rule of vLLM, one token or a few drafts of each request, on states that lie in slots."""

from harness.suite import Dim, Draw, DType, groups, integers, op, tensor

ABSENT = -1
"""The slot of a request that pads the batch."""
EPS = 1e-6


@op(
    requires=("sources:vllm",),
    stubs={"vllm": "vllm_stubs.py"},
    dims={
        "N": Dim(low=1, high=4, grows=True, largest=4096),
        "W": groups(1, 2, 4),
        "H": groups(1, 2, 3),
        "R": groups(1, 2, 4),
        "K": Dim(low=1, high=128),
        "V": Dim(low=1, high=128),
        "P": Dim(low=1, high=20, grows=True, largest=1 << 22),
    },
    inputs={
        "q": tensor(1, "N*W", "H", "K", grad=False),
        "k": tensor(1, "N*W", "H", "K", grad=False, draw=Draw.NORMALISED),
        "v": tensor(1, "N*W", "H*R", "V", grad=False),
        "g": tensor(1, "N*W", "H*R", grad=False, dtype=DType.FP32, draw=Draw.LOG_UNIT),
        "beta": tensor(1, "N*W", "H*R", grad=False, draw=Draw.UNIT),
        "states": tensor("P", "H*R", "K", "V", grad=False),
        "slots": integers("N", "W", high="P", distinct=True, dtype="int32"),
        "pads": integers("N", high=2, dtype="bool"),
        "accepted": integers("N", low=1, high="W+1", dtype="int32"),
    },
    options={"normalise": (False, True)},
    contiguous=True,
    where=lambda at: at["N"] * at["W"] <= at["P"],
    defined=lambda pads, W: (~pads.repeat_interleave(W)[None, :, None, None], None),
)
def steps_of_requests(q, k, v, g, beta, states, slots, pads, accepted, normalise, N, W):
    """Requests go on from the state of their last accepted draft, and store the state of each draft."""
    import torch
    from vllm.model_executor.layers.fla.ops.fused_recurrent import fused_recurrent_gated_delta_rule

    slots = slots.masked_fill(pads[:, None], ABSENT)
    drafts = {"ssm_state_indices": slots[:, 0]}
    if W > 1:
        drafts = {"ssm_state_indices": slots, "num_accepted_tokens": accepted}
    bounds = W * torch.arange(N + 1, device=q.device, dtype=torch.int32)
    return fused_recurrent_gated_delta_rule(
        q, k, v, g, beta, initial_state=states.clone(), cu_seqlens=bounds, use_qk_l2norm_in_kernel=normalise, **drafts
    )


@steps_of_requests.reference
def steps_of_requests_reference(q, k, v, g, beta, states, slots, pads, accepted, normalise, W):
    import torch

    if normalise:
        q, k = (one / (one.square().sum(-1, keepdim=True) + EPS).sqrt() for one in (q, k))
    q, k = (one.repeat_interleave(v.shape[2] // q.shape[2], 2) for one in (q, k))
    q, k, v, g, beta = (one[0].unflatten(0, (-1, W)) for one in (q, k, v, g, beta))
    slots, kept = slots.long(), ~pads
    state = states[slots.gather(1, accepted[:, None].long() - 1)[:, 0]]
    outputs = []
    for at in range(W):
        state, output = stepped(state, q[:, at], k[:, at], v[:, at], g[:, at], beta[:, at])
        states = states.index_put((slots[kept, at],), state[kept])
        outputs.append(output)
    return torch.stack(outputs, 1).flatten(0, 1)[None], states


def stepped(state, q, k, v, g, beta):
    """Return the state of each head after one token, and what its query reads from it."""
    import torch

    state = state * g.to(state.dtype).exp()[..., None, None]
    change = beta[..., None] * (v - torch.einsum("nhkv,nhk->nhv", state, k))
    state = state + k[..., None] * change[..., None, :]
    return state, torch.einsum("nhkv,nhk->nhv", state, q) * q.shape[-1] ** -0.5
