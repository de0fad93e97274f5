"""Zoo: attention with all keys, causal by -inf and by -1e30, and decoding with keys split among programs."""

from harness.suite import Dim, beside, op, tensor, tokens, width

KERNELS = "kernels/attention.py"
FAR_BELOW = -1e30
DIMS = {
    "B": Dim(low=1, high=2),
    "T": tokens(128, grows=False, long=0),
    "H": Dim(low=1, high=2),
    "K": width(64),
}
QKV = {"q": tensor("B", "T", "H", "K"), "k": tensor("B", "T", "H", "K"), "v": tensor("B", "T", "H", "K")}


@op(dims=DIMS, inputs=QKV, apart=("B", "H"))
def attention(q, k, v):
    return beside(__file__, KERNELS).attention(q, k, v, causal=False)


@attention.reference
def attention_reference(q, k, v):
    return by_quotient(scores(q, k), v)


@op(dims=DIMS, inputs=QKV, apart=("B", "H"))
def attention_causal(q, k, v):
    return beside(__file__, KERNELS).attention(q, k, v, causal=True)


@attention_causal.reference
def attention_causal_reference(q, k, v):
    import torch

    sees = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).tril()
    return by_quotient(scores(q, k).masked_fill(~sees, float("-inf")), v)


@op(dims=DIMS, inputs=QKV, apart=("B", "H"))
def attention_causal_finite(q, k, v):
    return beside(__file__, KERNELS).attention(q, k, v, causal=True, masked=FAR_BELOW)


@attention_causal_finite.reference
def attention_causal_finite_reference(q, k, v):
    import torch

    sees = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).tril()
    return by_quotient(torch.where(sees, scores(q, k), FAR_BELOW), v)


@op(
    dims={"B": Dim(low=1, high=4), "S": tokens(512, grows=False, long=0), "H": Dim(low=1, high=4), "K": width(64)},
    inputs={
        "q": tensor("B", "H", "K", grad=False),
        "k": tensor("B", "S", "H", "K", grad=False),
        "v": tensor("B", "S", "H", "K", grad=False),
    },
    apart=("B", "H"),
)
def attention_decoding(q, k, v):
    return beside(__file__, KERNELS).decode(q, k, v)


@attention_decoding.reference
def attention_decoding_reference(q, k, v):
    return attention_reference(q[:, None], k, v)[:, 0]


def scores(q, k):
    """Return the scaled products of queries and keys, (B, H, T, S)."""
    return q.transpose(1, 2) @ k.permute(0, 2, 3, 1) * q.shape[-1] ** -0.5


def by_quotient(z, v):
    """Return the values weighed by the softmax of the scores."""
    e = (z - z.amax(-1, keepdim=True)).exp()
    return ((e / e.sum(-1, keepdim=True)) @ v.transpose(1, 2)).transpose(1, 2)
