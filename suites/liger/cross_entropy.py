"""Cross entropy of Liger-Kernel, from logits and fused with the linear layer before it."""

from harness.suite import Draw, beside, integers, op, tensor, tokens, width

LIBRARY = ("liger-kernel",)
IGNORED = -100
SETTINGS = {
    "reduction": ("mean", "sum", "none"),
    "label_smoothing": (0.0, 0.1),
    "lse_square_scale": (0.0, 0.01),
    "softcap": (None, 30.0),
    "return_z_loss": (False, True),
}
apply = beside(__file__, "applying.py").apply


@op(
    requires=LIBRARY,
    dims={"V": width(70_000), "T": tokens(2048)},
    inputs={
        "logits": tensor("T", "V"),
        "target": integers("T", high="V", ignore=IGNORED),
        "weight": tensor("V", optional=True, grad=False, draw=Draw.POSITIVE),
    },
    options=SETTINGS,
    independent=("T",),
)
def cross_entropy(logits, target, weight, reduction, label_smoothing, lse_square_scale, softcap, return_z_loss):
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

    returned = apply(
        LigerCrossEntropyFunction,
        _input=logits,
        target=target,
        weight=weight,
        ignore_index=IGNORED,
        lse_square_scale=lse_square_scale,
        label_smoothing=label_smoothing,
        reduction=reduction,
        softcap=softcap,
        return_z_loss=return_z_loss,
    )
    return losses(returned, return_z_loss)


@cross_entropy.reference
def cross_entropy_reference(
    logits, target, weight, reduction, label_smoothing, lse_square_scale, softcap, return_z_loss
):
    loss, z_loss = by_token(logits, target, weight, label_smoothing, lse_square_scale, softcap)
    return reduced(loss, z_loss, target, weight, reduction, return_z_loss)


@op(
    requires=LIBRARY,
    dims={"V": width(20_000), "T": tokens(160), "H": width(256)},  # with a narrow H, every token is a launch
    inputs={
        "x": tensor("T", "H"),
        "weight": tensor("V", "H"),
        "target": integers("T", high="V", ignore=IGNORED),
        "bias": tensor("V", optional=True),
        "class_weight": tensor("V", optional=True, grad=False, draw=Draw.POSITIVE),
    },
    options={**SETTINGS, "use_token_scaling": (False, True)},
)
def fused_linear_cross_entropy(
    x,
    weight,
    target,
    bias,
    class_weight,
    reduction,
    label_smoothing,
    lse_square_scale,
    softcap,
    return_z_loss,
    use_token_scaling,
):
    import torch
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    returned = apply(
        LigerFusedLinearCrossEntropyFunction,
        _input=x,
        weight=weight,
        target=target,
        bias=bias,
        ce_weight=class_weight,
        ignore_index=IGNORED,
        lse_square_scale=lse_square_scale,
        label_smoothing=label_smoothing,
        reduction=reduction,
        softcap=softcap,
        return_z_loss=return_z_loss,
        use_token_scaling=use_token_scaling,
        # The default sums gradients over chunks in the parameters' type, which is documented as less precise.
        accum_dtype=None if x.dtype is torch.float32 else torch.float32,
    )
    return losses(returned, return_z_loss)


@fused_linear_cross_entropy.reference
def fused_linear_cross_entropy_reference(
    x,
    weight,
    target,
    bias,
    class_weight,
    reduction,
    label_smoothing,
    lse_square_scale,
    softcap,
    return_z_loss,
    use_token_scaling,
):
    logits = x @ weight.T if bias is None else x @ weight.T + bias
    loss, z_loss = by_token(logits, target, class_weight, label_smoothing, lse_square_scale, softcap)
    if use_token_scaling:
        plain, _ = by_token(logits, target, None, 0.0, 0.0, softcap)
        share = (-plain).exp().detach()
        loss, z_loss = loss * share, z_loss * share
    return reduced(loss, z_loss, target, class_weight, reduction, return_z_loss)


def losses(returned, return_z_loss):
    """The loss, and the z-loss if requested, which is for logging and has no gradient."""
    returned = returned if isinstance(returned, tuple) else (returned,)
    return (returned[0], returned[1].detach()) if return_z_loss else returned[0]


def by_token(logits, target, weight, label_smoothing, lse_square_scale, softcap):
    """The weighted loss and the z-loss of each token; both are zero for ignored tokens."""
    import torch

    if softcap is not None:
        logits = softcap * (logits / softcap).tanh()
    kept = target != IGNORED
    label = target.where(kept, 0)[:, None]
    top = logits.detach().amax(-1, keepdim=True)
    normaliser = top[:, 0] + (logits - top).exp().sum(-1).log()
    scale = torch.ones_like(logits[0]) if weight is None else weight
    hard = scale[label[:, 0]] * (normaliser - logits.gather(-1, label)[:, 0])
    smooth = (scale * (normaliser[:, None] - logits)).mean(-1)
    loss = (1 - label_smoothing) * hard + label_smoothing * smooth if label_smoothing else hard
    z_loss = lse_square_scale * normaliser * normaliser
    return loss.where(kept, 0.0), z_loss.where(kept, 0.0)


def reduced(loss, z_loss, target, weight, reduction, return_z_loss):
    """Reduce the losses of all tokens.  A mean weighs tokens by class, except that of the z-loss."""
    if reduction == "mean":
        kept = target != IGNORED
        count = kept.sum().clamp(min=1)
        loss = loss.sum() / (count if weight is None else (weight[target.where(kept, 0)] * kept).sum() + (~kept).all())
        z_loss = z_loss.sum() / count
    elif reduction == "sum":
        loss, z_loss = loss.sum(), z_loss.sum()
    return (loss + z_loss, z_loss.detach()) if return_z_loss else loss + z_loss
