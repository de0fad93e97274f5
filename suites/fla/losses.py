"""Losses of flash-linear-attention other than cross entropy: distillation through linear layers, and GRPO."""

from harness.suite import Dim, Draw, integers, op, tensor, tokens, width

LIBRARY = (("fla-core", "flash-linear-attention"),)


@op(
    requires=LIBRARY,
    dims={"N": tokens(512), "H": width(256), "V": width(1024)},
    inputs={
        "x": tensor("N", "H"),
        "target_x": tensor("N", "H", grad=False),  # the library's docstring says that the teacher is frozen
        "weight": tensor("V", "H"),
        "target_weight": tensor("V", "H", grad=False),
    },
    options={"accumulate_grad_in_fp32": (True, False)},
)
def linear_kl_div(x, target_x, weight, target_weight, accumulate_grad_in_fp32):
    from fla.modules.fused_kl_div import fused_kl_div_loss

    newer = {} if accumulate_grad_in_fp32 else {"accumulate_grad_in_fp32": False}
    return fused_kl_div_loss(x, target_x, weight, target_weight, **newer)


@linear_kl_div.reference
def linear_kl_div_reference(x, target_x, weight, target_weight):
    student, teacher = log_shares(x @ weight.T), log_shares(target_x @ target_weight.T)
    return (teacher.exp() * (teacher - student)).sum() / x.shape[0]


@op(
    requires=LIBRARY,
    dims={"B": Dim(low=1, high=8), "L": tokens(128), "P": Dim(low=0, high=16), "V": width(4096)},
    inputs={
        "logits": tensor("B", "L+1", "V"),
        "ref_logp": tensor("B", "L", grad=False, draw=Draw.LOG_UNIT),
        "input_ids": integers("B", "P+L", high="V"),
        "advantages": tensor("B", grad=False),
        "completion_mask": integers("B", "L", high=2, optional=True),
    },
    options={"beta": (0.1, 0.0), "save_kl": (False, True), "inplace": (False, True)},
)
def grpo(logits, ref_logp, input_ids, advantages, completion_mask, beta, save_kl, inplace):
    from fla.modules.grpo import fused_grpo_loss

    logits = logits.clone() if inplace else logits  # the library writes the gradient in its place
    return fused_grpo_loss(logits, ref_logp, input_ids, advantages, beta, completion_mask, save_kl, inplace)


@grpo.reference
def grpo_reference(logits, ref_logp, input_ids, advantages, completion_mask, beta, save_kl, L):
    chosen = input_ids[:, -L:, None]
    logp = log_shares(logits[:, :-1]).gather(-1, chosen)[..., 0]
    difference = ref_logp - logp
    kl = difference.exp() - difference - 1
    loss = beta * kl - (logp - logp.detach()).exp() * advantages[:, None]
    if completion_mask is not None:
        loss, kl = (value.masked_fill(completion_mask == 0, 0.0) for value in (loss, kl))
    return (loss, kl) if save_kl else loss


def log_shares(logits):
    """Log-softmax along the last axis, in elementary operations, so that the harness sees every rounding."""
    shifted = logits - logits.detach().amax(-1, keepdim=True)
    return shifted - shifted.exp().sum(-1, keepdim=True).log()
