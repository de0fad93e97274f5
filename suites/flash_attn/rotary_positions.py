"""The rotary embedding of flash-attn: both pairings, partial widths, offsets, packed sequences."""

from itertools import pairwise

from harness.suite import Dim, groups, integers, op, segments, tensor, tokens

LIBRARY = {"requires": ("sources:flash-attn",), "stubs": {"flash_attn": "flash_attn_stubs.py"}}
SIZES = {
    "T": tokens(512),
    "H": groups(1, 2, 3, 4, 8),
    "R": Dim(low=1, high=128),  # rotated pairs of channels
    "P": Dim(low=0, high=64),  # channels that are not rotated
    "E": Dim(low=0, high=64),  # additional positions in the tables
}
FORM = {"interleaved": (False, True), "inplace": (False, True)}


def fits(at):
    return 2 * at["R"] + at["P"] <= 256


@op(
    **LIBRARY,
    dims={"B": Dim(low=1, high=4), **SIZES},
    inputs={
        "x": tensor("B", "T", "H", "2*R+P"),
        "cos": tensor("T+E", "R", grad=False),
        "sin": tensor("T+E", "R", grad=False),
        "offsets": integers("B", high="E+1", optional=True, dtype="int32"),
    },
    options=FORM,
    apart=("B", "T", "H"),
    where=fits,
)
def rotary(x, cos, sin, offsets, interleaved, inplace):
    from flash_attn.layers.rotary import apply_rotary_emb

    return apply_rotary_emb(x * 1 if inplace else x, cos, sin, interleaved, inplace, 0 if offsets is None else offsets)


@rotary.reference
def rotary_reference(x, cos, sin, offsets, interleaved):
    import torch

    offsets = torch.zeros(len(x), dtype=torch.int64) if offsets is None else offsets
    return turned(x, cos, sin, torch.arange(x.shape[1]) + offsets[:, None], interleaved)


@op(
    **LIBRARY,
    dims={"N": groups(1, 2, 3, 5, 8), **SIZES},
    inputs={
        "x": tensor("T", "H", "2*R+P"),
        "cos": tensor("T+E", "R", grad=False),
        "sin": tensor("T+E", "R", grad=False),
        "cu_seqlens": segments("T", "N", dtype="int32"),
    },
    options=FORM,
    apart=("T", "H"),
    where=lambda at: fits(at) and at["N"] <= at["T"],
)
def rotary_packed(x, cos, sin, cu_seqlens, interleaved, inplace):
    from flash_attn.layers.rotary import apply_rotary_emb

    longest = int(cu_seqlens.diff().max())
    given = x * 1 if inplace else x
    return apply_rotary_emb(given, cos, sin, interleaved, inplace, cu_seqlens=cu_seqlens, max_seqlen=longest)


@rotary_packed.reference
def rotary_packed_reference(x, cos, sin, cu_seqlens, interleaved):
    import torch

    positions = torch.cat([torch.arange(last - first) for first, last in pairwise(cu_seqlens.tolist())])
    return turned(x, cos, sin, positions, interleaved)


def turned(x, cos, sin, positions, interleaved):
    """Rotate pairs of channels by the angles of the rows' positions."""
    import torch

    pairs = cos.shape[1]
    c, s = cos[positions].unsqueeze(-2), sin[positions].unsqueeze(-2)
    front, passing = x[..., : 2 * pairs], x[..., 2 * pairs :]
    a, b = (front[..., ::2], front[..., 1::2]) if interleaved else (front[..., :pairs], front[..., pairs:])
    first, second = a * c - b * s, a * s + b * c
    turn = torch.stack((first, second), -1).flatten(-2) if interleaved else torch.cat((first, second), -1)
    return torch.cat((turn, passing), -1)
