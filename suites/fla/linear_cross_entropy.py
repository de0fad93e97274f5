"""The fused linear cross entropy of flash-linear-attention: a linear layer and the loss, in chunks of rows."""

from harness.suite import integers, op, tensor, tokens, width

LIBRARY = (("fla-core", "flash-linear-attention"),)
IGNORED = -100


@op(
    requires=LIBRARY,
    dims={"N": tokens(512), "H": width(256), "V": width(1024)},
    inputs={
        "x": tensor("N", "H"),
        "target": integers("N", low=0, high="V", ignore=IGNORED),
        "weight": tensor("V", "H"),
        "bias": tensor("V", optional=True),
    },
    options={
        "label_smoothing": (0.0, 0.1),
        "logit_scale": (1.0, 0.3),
        "logit_softcapping": (None, 15.0),
        "num_chunks": (8, 1, 3),
        "reduction": ("mean", "sum"),
        "accumulate_grad_in_fp32": (True, False),
    },
)
def linear_cross_entropy(
    x,
    target,
    weight,
    bias,
    label_smoothing,
    logit_scale,
    logit_softcapping,
    num_chunks,
    reduction,
    accumulate_grad_in_fp32,
):
    from fla.modules.fused_linear_cross_entropy import fused_linear_cross_entropy_loss

    # later releases added them one by one: a default value is left out
    newer = {} if logit_softcapping is None else {"logit_softcapping": logit_softcapping}
    newer |= {} if accumulate_grad_in_fp32 else {"accumulate_grad_in_fp32": False}
    return fused_linear_cross_entropy_loss(
        x,
        target,
        weight,
        bias,
        label_smoothing=label_smoothing,
        logit_scale=logit_scale,
        num_chunks=num_chunks,
        reduction=reduction,
        **newer,
    )


@linear_cross_entropy.reference
def linear_cross_entropy_reference(x, target, weight, bias, label_smoothing, logit_scale, logit_softcapping, reduction):
    import torch

    logits = x @ weight.T
    z = (logits if bias is None else logits + bias) * logit_scale
    z = z if logit_softcapping is None else logit_softcapping * (z / logit_softcapping).tanh()
    lse = z.logsumexp(-1)  # its gradient is exp(z - lse), computed from the rounded lse
    chosen = z.gather(-1, target.clamp(min=0)[:, None])[:, 0]
    loss = lse - (1 - label_smoothing) * chosen - label_smoothing * z.mean(-1)
    counts = target != IGNORED
    total = torch.where(counts, loss, torch.zeros_like(loss)).sum()
    # if all rows are ignored, the library divides by 1, so its mean is 0
    return total / counts.sum().clamp(min=1) if reduction == "mean" else total
