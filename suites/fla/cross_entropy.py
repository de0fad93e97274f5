"""The fused cross entropy of flash-linear-attention: smoothing, scales, soft cap, squared log-sum-exp, ignored rows."""

from harness.suite import Dim, groups, integers, op, tensor, tokens

LIBRARY = (("fla-core", "flash-linear-attention"),)
IGNORED = -100
OPTIONS = {
    "label_smoothing": (0.0, 0.1),
    "logit_scale": (1.0, 0.3, -1.5),
    "lse_square_scale": (0.0, 0.01),
    "logit_softcapping": (None, 15.0),
    "ignore_index": (IGNORED, 0),
    "inplace_backward": (False, True),
}
SIZES = {"N": tokens(1024), "V": Dim(low=1, high=140_000)}
SPLIT_SIZES = {"N": Dim(low=1, high=4), "V": groups(65_537, 70_001, 131_072, 131_073)}  # one tile covers 65536 classes
INPUTS = {"logits": tensor("N", "V"), "target": integers("N", low=0, high="V", ignore=IGNORED)}


@op(requires=LIBRARY, dims=SIZES, inputs=INPUTS, options=OPTIONS, apart=("N",), independent=("N",))
def cross_entropy(logits, target, **given):
    return fused(logits, target, **{name: given[name] for name in OPTIONS})


@cross_entropy.reference
def cross_entropy_reference(
    logits, target, label_smoothing, logit_scale, lse_square_scale, logit_softcapping, ignore_index
):
    loss, square = losses(
        logits * logit_scale, target, label_smoothing, lse_square_scale, logit_softcapping, ignore_index
    )
    return loss, square.detach()


@op(requires=LIBRARY, dims=SPLIT_SIZES, inputs=INPUTS, options=OPTIONS, apart=("N",), independent=("N",))
def cross_entropy_of_split_rows(logits, target, **given):
    return fused(logits, target, **{name: given[name] for name in OPTIONS})


@cross_entropy_of_split_rows.reference
def cross_entropy_of_split_rows_reference(
    logits, target, label_smoothing, logit_scale, lse_square_scale, logit_softcapping, ignore_index
):
    loss, square = losses(
        logits * logit_scale, target, label_smoothing, lse_square_scale, logit_softcapping, ignore_index
    )
    return loss, square.detach()


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs=INPUTS,
    options={**OPTIONS, "reduction": ("mean", "sum", "none")},
    apart=("N",),
    independent=("N",),
)
def cross_entropy_module(
    logits,
    target,
    label_smoothing,
    logit_scale,
    lse_square_scale,
    logit_softcapping,
    ignore_index,
    inplace_backward,
    reduction,
):
    from fla.modules.fused_cross_entropy import FusedCrossEntropyLoss

    capping = {} if logit_softcapping is None else {"logit_softcapping": logit_softcapping}
    module = FusedCrossEntropyLoss(
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
        logit_scale=logit_scale,
        lse_square_scale=lse_square_scale,
        inplace_backward=inplace_backward,
        **capping,
    )
    return module(logits.clone() if inplace_backward else logits, marked(target, ignore_index))


@cross_entropy_module.reference
def cross_entropy_module_reference(
    logits, target, label_smoothing, logit_scale, lse_square_scale, logit_softcapping, ignore_index, reduction
):
    scaled = logits * logit_scale
    loss, _ = losses(scaled, target, label_smoothing, lse_square_scale, logit_softcapping, ignore_index)
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / counted(target, ignore_index).sum()


def fused(logits, target, ignore_index, inplace_backward, logit_softcapping, **settings):
    """The library's loss of each row, and the part of it that comes from the squared log-sum-exp."""
    from fla.modules.fused_cross_entropy import cross_entropy_loss

    capping = {} if logit_softcapping is None else {"logit_softcapping": logit_softcapping}  # since 0.5
    return cross_entropy_loss(
        logits.clone() if inplace_backward else logits,  # the library writes the gradient in its place
        marked(target, ignore_index),
        ignore_index=ignore_index,
        inplace_backward=inplace_backward,
        **settings,
        **capping,
    )


def losses(scaled, target, label_smoothing, lse_square_scale, logit_softcapping, ignore_index):
    """The loss of each row, and the part from the squared log-sum-exp; both are zero for ignored rows."""
    import torch

    z = scaled if logit_softcapping is None else logit_softcapping * (scaled / logit_softcapping).tanh()
    lse = z.logsumexp(-1)  # its gradient is exp(z - lse), computed from the rounded lse
    chosen = z.gather(-1, target.clamp(min=0)[:, None])[:, 0]
    square = lse_square_scale * lse.square()
    loss = lse - (1 - label_smoothing) * chosen - label_smoothing * z.mean(-1) + square
    counts, nothing = counted(target, ignore_index), torch.zeros_like(loss)
    return torch.where(counts, loss, nothing), torch.where(counts, square, nothing)


def marked(target, ignore_index):
    """The targets, with `ignore_index` instead of the suite's index in rows to ignore."""
    return target.masked_fill(target == IGNORED, ignore_index)


def counted(target, ignore_index):
    """A mask of the rows that are not ignored."""
    return (target != IGNORED) & (target != ignore_index)
