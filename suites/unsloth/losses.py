"""Cross entropy of unsloth, from logits: a row is one block, or several if it has more than 65,536 columns."""

from harness.suite import groups, integers, op, tensor, tokens, width

LIBRARY = {"requires": ("unsloth",), "stubs": {"unsloth": "unsloth_stubs.py"}}
IGNORED = -100
BLOCK = 65_536
SETTINGS = {"softcap": (0.0, 30.0), "scale": (0.0, 0.5)}


@op(
    **LIBRARY,
    dims={"T": tokens(64), "V": width(BLOCK)},
    inputs={"logits": tensor("T", "V"), "target": integers("T", high="V", ignore=IGNORED)},
    options=SETTINGS,
    contiguous=True,
)
def cross_entropy(logits, target, softcap, scale):
    return losses(logits, target, softcap, scale)


@cross_entropy.reference
def cross_entropy_reference(logits, target, softcap, scale):
    return definition(logits, target, softcap, scale)


@op(
    **LIBRARY,
    dims={"T": tokens(16), "V": width(4096), "W": groups(1, 2)},
    inputs={
        "logits": tensor("T", f"{BLOCK}*W + V"),
        "target": integers("T", high=f"{BLOCK}*W + V", ignore=IGNORED),
    },
    options=SETTINGS,
    contiguous=True,
)
def cross_entropy_of_long_rows(logits, target, softcap, scale):
    return losses(logits, target, softcap, scale)


@cross_entropy_of_long_rows.reference
def cross_entropy_of_long_rows_reference(logits, target, softcap, scale):
    return definition(logits, target, softcap, scale)


def losses(logits, target, softcap, scale):
    from unsloth.kernels.cross_entropy_loss import Fast_CrossEntropyLoss

    return Fast_CrossEntropyLoss.apply(logits, target, softcap, scale)


def definition(logits, target, softcap, scale):
    import torch

    logits = logits * scale if scale else logits
    logits = softcap * (logits / softcap).tanh() if softcap else logits
    return torch.nn.functional.cross_entropy(logits, target, ignore_index=IGNORED, reduction="none")
