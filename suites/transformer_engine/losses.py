"""Cross entropy of TransformerEngine, on one GPU."""

from harness.suite import Dim, beside, integers, op, tensor, tokens, width

IGNORED = -100


@op(
    requires=("transformer-engine",),
    dims={"B": Dim(low=1, high=4), "T": tokens(512, grows=False), "V": width(70_000)},
    inputs={"logits": tensor("B", "T", "V"), "target": integers("B", "T", high="V", ignore=IGNORED)},
    options={"label_smoothing": (0.0, 0.1), "reduces": (False, True)},
    where=lambda at: at["B"] * at["T"] * at["V"] <= 1 << 24,
)
def cross_entropy(logits, target, label_smoothing, reduces):
    return beside(__file__, "calling.py").cross_entropy(logits, target, label_smoothing, reduces, IGNORED)


@cross_entropy.reference
def cross_entropy_reference(logits, target, label_smoothing, reduces):
    return definition(logits, target, label_smoothing, reduces)


@op(
    requires=("transformer-engine",),
    dims={"B": Dim(low=1, high=4), "T": tokens(64, grows=False), "V": width(9_000)},
    inputs={"logits": tensor("T", "B", "V", contiguous=True), "target": integers("B", "T", high="V", ignore=IGNORED)},
    options={"label_smoothing": (0.0, 0.1), "reduces": (False, True)},
)
def cross_entropy_of_transposed_logits(logits, target, label_smoothing, reduces):
    """Megatron keeps the tokens of all sequences first."""
    return beside(__file__, "calling.py").cross_entropy(
        logits.transpose(0, 1), target, label_smoothing, reduces, IGNORED
    )


@cross_entropy_of_transposed_logits.reference
def cross_entropy_of_transposed_logits_reference(logits, target, label_smoothing, reduces):
    return definition(logits.transpose(0, 1), target, label_smoothing, reduces)


def definition(logits, target, label_smoothing, reduces):
    kept = target != IGNORED
    top = logits.detach().amax(-1, keepdim=True)
    normaliser = top[..., 0] + (logits - top).exp().sum(-1).log()
    hard = normaliser - logits.gather(-1, target.where(kept, 0)[..., None])[..., 0]
    smooth = normaliser - logits.mean(-1)
    loss = ((1 - label_smoothing) * hard + label_smoothing * smooth).where(kept, 0.0)
    return (loss.sum() / kept.sum().clamp(min=1))[None] if reduces else loss
