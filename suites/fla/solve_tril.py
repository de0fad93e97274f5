"""The inverse of unit lower triangular chunks, which the delta rules and KDA need.

`FLA_USE_TMA=1` makes its kernels use tensor descriptors.  `DESCRIPTOR_RULE=9.0` is an emulation, for `--env` only: the
kernels use descriptors on every GPU of at least that compute capability, as vLLM's copy of them did, while the
allocator of scratch memory stays what the import of the library has set.
"""

from harness.suite import Dim, Draw, DType, groups, op, tensor, tokens


@op(
    requires=(("fla-core", "flash-linear-attention"),),
    environment={"FLA_USE_TMA": ("1",)},
    dims={"B": Dim(low=1, high=2), "T": tokens(150, grows=False), "H": groups(1, 2, 3), "C": groups(16, 32, 64)},
    inputs={"A": tensor("B", "T", "H", "C", draw=Draw.NORMALISED, grad=False)},
    dtypes=(DType.FP32,),
)
def solve_tril(A):
    from fla.ops.utils.solve_tril import solve_tril

    follow_rule()
    return solve_tril(strictly_lower(A).contiguous())


@solve_tril.reference
def solve_tril_reference(A):
    """Invert I + A chunk by chunk, by forward substitution."""
    import torch

    B, T, H, C = A.shape
    chunks = -(-T // C)
    padded = torch.nn.functional.pad(strictly_lower(A), (0, 0, 0, 0, 0, chunks * C - T))
    lower = padded.reshape(B, chunks, C, H, C).transpose(2, 3)
    unit = torch.eye(C, dtype=A.dtype)
    rows = []
    for i in range(C):
        known = torch.stack(rows, -2) if rows else lower[..., :0, :]
        rows.append(unit[i] - (lower[..., i : i + 1, :i] @ known).squeeze(-2))
    inverse = torch.stack(rows, -2)
    return inverse.transpose(2, 3).reshape(B, chunks * C, H, C)[:, :T]


def strictly_lower(A):
    """Return A with the elements left of the diagonal of each chunk, and zeros elsewhere."""
    import torch

    T, C = A.shape[1], A.shape[3]
    row, column = torch.arange(T, device=A.device) % C, torch.arange(C, device=A.device)
    return A * (column < row[:, None])[:, None].to(A.dtype)


def follow_rule():
    """Turn descriptors on by compute capability alone, if the emulation is wanted."""
    import importlib
    import os

    import torch

    if rule := os.environ.get("DESCRIPTOR_RULE"):
        kernels = importlib.import_module("fla.ops.utils.solve_tril")
        kernels.IS_TMA_SUPPORTED = torch.cuda.get_device_capability() >= tuple(map(int, rule.split(".")))
