"""Cross entropy of flash-attn, on one GPU, with its z loss."""

import inspect

from harness.suite import Dim, integers, op, tensor, width

IGNORED = -100


@op(
    requires=("sources:flash-attn",),
    stubs={"flash_attn": "flash_attn_stubs.py"},
    dims={"T": Dim(low=1, high=1024, grows=True, largest=2**31 - 1), "V": width(40_000)},
    inputs={"logits": tensor("T", "V"), "labels": integers("T", high="V", ignore=IGNORED)},
    options={
        "label_smoothing": (0.0, 0.1),
        "logit_scale": (1.0, 0.5),
        "lse_square_scale": (0.0, 1e-3),
        "inplace_backward": (False, True),
    },
)
def cross_entropy(logits, labels, label_smoothing, logit_scale, lse_square_scale, inplace_backward):
    from flash_attn.ops.triton.cross_entropy import cross_entropy_loss

    settings = {"logit_scale": logit_scale}
    if "logit_scale" not in inspect.signature(cross_entropy_loss).parameters:
        if logit_scale != 1.0:
            raise NotImplementedError("this release does not scale logits")
        settings = {}
    # In place, the library writes the gradient over its logits: over a copy here.
    given = logits * 1 if inplace_backward else logits
    return cross_entropy_loss(
        given,
        labels,
        label_smoothing=label_smoothing,
        lse_square_scale=lse_square_scale,
        inplace_backward=inplace_backward,
        **settings,
    )


@cross_entropy.reference
def cross_entropy_reference(logits, labels, label_smoothing, logit_scale, lse_square_scale):
    kept = labels != IGNORED
    logits = logits * logit_scale
    top = logits.detach().amax(-1, keepdim=True)
    normaliser = top[:, 0] + (logits - top).exp().sum(-1).log()
    hard = normaliser - logits.gather(-1, labels.where(kept, 0)[:, None])[:, 0]
    smooth = normaliser - logits.mean(-1)
    z_loss = (lse_square_scale * normaliser.square()).where(kept, 0.0)
    loss = ((1 - label_smoothing) * hard + label_smoothing * smooth).where(kept, 0.0) + z_loss
    return loss, z_loss.detach()
