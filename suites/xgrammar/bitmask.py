"""What grammars of xgrammar do to logits: tokens that a grammar does not allow become minus infinity."""

from harness.suite import Dim, beside, integers, op, tensor, width

LIBRARY = {"requires": ("xgrammar",), "stubs": {"xgrammar": "xgrammar_stubs.py"}}
ROWS = {"T": Dim(low=1, high=16), "V": width(20_000)}


@op(**LIBRARY, dims=ROWS, inputs={"logits": tensor("T", "V", grad=False), "allowed": integers("T", "V", high=2)})
def all_rows(logits, allowed):
    return banned(logits, allowed, None)


@all_rows.reference
def all_rows_reference(logits, allowed):
    return logits.masked_fill(allowed == 0, float("-inf"))


@op(
    **LIBRARY,
    dims={**ROWS, "R": Dim(low=1, high=16)},
    inputs={
        "logits": tensor("T", "V", grad=False),
        "allowed": integers("T", "V", high=2),
        "rows": integers("R", high="T", distinct=True, dtype="int32"),
    },
    where=lambda at: at["R"] <= at["T"],
)
def chosen_rows(logits, allowed, rows):
    return banned(logits, allowed, rows.tolist())


@chosen_rows.reference
def chosen_rows_reference(logits, allowed, rows):
    import torch

    chosen = torch.isin(torch.arange(len(logits)), rows)
    return logits.masked_fill((allowed == 0) & chosen[:, None], float("-inf"))


def banned(logits, allowed, rows):
    import torch
    from xgrammar.kernels.apply_token_bitmask_inplace_triton import apply_token_bitmask_inplace_triton

    logits = logits.clone(memory_format=torch.contiguous_format)
    bits = beside(__file__, "../vllm/packed_bits.py").packed_bits(allowed)
    apply_token_bitmask_inplace_triton(logits, bits, logits.shape[1], rows)
    return logits
