"""The rotary embedding of flash-linear-attention: both pairings, partial widths, offsets of either sign, varlen."""

from harness.suite import Dim, integers, op, segments, tensor, tokens

LIBRARY = (("fla-core", "flash-linear-attention"),)
SIZES = {
    "T": tokens(512),
    "H": Dim(low=1, high=8),
    "R": Dim(low=1, high=128),  # rotated pairs of channels
    "P": Dim(low=0, high=64),  # channels that are not rotated
    "E": Dim(low=0, high=64),  # additional positions in the tables
}
TABLES = {"cos": tensor("T+E", "R", grad=False), "sin": tensor("T+E", "R", grad=False)}
FORM = {"interleaved": (False, True), "inplace": (False, True)}


def head_fits(at):
    """`rotary_embedding_fwdbwd` asserts `D <= 256`."""
    return 2 * at["R"] + at["P"] <= 256


@op(
    requires=LIBRARY,
    dims={"B": Dim(low=1, high=6), **SIZES},
    inputs={"x": tensor("B", "T", "H", "2*R+P"), **TABLES, "offset": integers(1, low="-T", high="E+1")},
    options=FORM,
    apart=("B", "T", "H"),
    where=head_fits,
    independent=("B",),
)
def rotary_embedding(x, cos, sin, offset, interleaved, inplace):
    return rotated(x, cos, sin, interleaved, inplace, seqlen_offsets=int(offset))


@rotary_embedding.reference
def rotary_embedding_reference(x, cos, sin, offset, interleaved, inplace):
    return turned(x, cos, sin, offset.expand(x.shape[0]), interleaved, inplace)


@op(
    requires=LIBRARY,
    dims={"B": Dim(low=1, high=6), **SIZES},
    inputs={"x": tensor("B", "T", "H", "2*R+P"), **TABLES, "offsets": integers("B", low="-T", high="E+1")},
    options={**FORM, "narrow": (False, True)},
    apart=("B", "T", "H"),
    where=head_fits,
    independent=("B",),
)
def rotary_embedding_with_offsets(x, cos, sin, offsets, interleaved, inplace, narrow):
    return rotated(x, cos, sin, interleaved, inplace, seqlen_offsets=offsets.int() if narrow else offsets)


@rotary_embedding_with_offsets.reference
def rotary_embedding_with_offsets_reference(x, cos, sin, offsets, interleaved, inplace):
    return turned(x, cos, sin, offsets, interleaved, inplace)


@op(
    requires=LIBRARY,
    dims={"N": Dim(low=1, high=16), **SIZES},
    inputs={
        "x": tensor(1, "T", "H", "2*R+P"),
        **TABLES,
        "cu_seqlens": segments("T", "N"),
        "offsets": integers("N", low="-T", high="E+1", optional=True),
    },
    options=FORM,
    apart=("T", "H"),
    where=lambda at: head_fits(at) and at["N"] <= at["T"],
)
def rotary_embedding_varlen(x, cos, sin, cu_seqlens, offsets, interleaved, inplace):
    return rotated(
        x, cos, sin, interleaved, inplace, seqlen_offsets=0 if offsets is None else offsets, cu_seqlens=cu_seqlens
    )


@rotary_embedding_varlen.reference
def rotary_embedding_varlen_reference(x, cos, sin, cu_seqlens, offsets, interleaved, inplace):
    import torch

    bounds = cu_seqlens.tolist()
    offsets = cu_seqlens.new_zeros(len(bounds) - 1) if offsets is None else offsets
    parts = [
        turned(x[:, begin:end], cos, sin, offset, interleaved, inplace)
        for begin, end, offset in zip(bounds[:-1], bounds[1:], offsets[:, None], strict=True)
    ]
    return torch.cat(parts, 1)


def rotated(x, cos, sin, interleaved, inplace, **where):
    """The library's result; in place works on a copy, since the reference needs the input."""
    from fla.modules.rotary import rotary_embedding as rotate

    return rotate(x.clone() if inplace else x, cos, sin, interleaved, inplace, **where)


def turned(x, cos, sin, offsets, interleaved, inplace):
    """Rotate row t of sequence b by position `t + offsets[b]`.

    Rows before position 0 are padding: their pairs become zeros, or stay unchanged in place.
    """
    import torch

    pairs = cos.shape[1]
    positions = torch.arange(x.shape[1]) + offsets[:, None]
    inside = ((positions >= 0) & (positions < cos.shape[0]))[..., None, None]
    known = positions.clamp(0, cos.shape[0] - 1)
    c, s = cos[known][:, :, None], sin[known][:, :, None]
    front, passing = x[..., : 2 * pairs], x[..., 2 * pairs :]
    a, b = (front[..., ::2], front[..., 1::2]) if interleaved else (front[..., :pairs], front[..., pairs:])
    first, second = a * c - b * s, a * s + b * c
    turn = torch.stack((first, second), -1).flatten(-2) if interleaved else torch.cat((first, second), -1)
    return torch.cat((torch.where(inside, turn, front if inplace else torch.zeros_like(front)), passing), -1)
