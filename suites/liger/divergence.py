"""Distances between distributions of Liger-Kernel: Kullback-Leibler, generalised Jensen-Shannon, total variation."""

from harness.suite import Draw, beside, integers, op, tensor, tokens, width

LIBRARY = ("liger-kernel",)
IGNORED = -100
REDUCTIONS = ("batchmean", "sum", "mean", "none")
ROWS = {"V": width(140_000), "T": tokens(2048)}
LABELS = integers("T", high="V", ignore=IGNORED, optional=True)
apply = beside(__file__, "applying.py").apply


@op(
    requires=LIBRARY,
    dims=ROWS,
    inputs={
        "log_probability": tensor("T", "V", draw=Draw.LOG_SHARES),
        "target": tensor("T", "V", grad=False, draw=Draw.SHARES),
    },
    options={"reduction": REDUCTIONS},
)
def kl_div(log_probability, target, reduction):
    from liger_kernel.ops.kl_div import LigerKLDivLossFunction

    return apply(LigerKLDivLossFunction, y_pred=log_probability, y_true=target, reduction=reduction, log_target=False)


@kl_div.reference
def kl_div_reference(log_probability, target, reduction):
    return reduced(target.xlogy(target) - target * log_probability, reduction)


@op(
    requires=LIBRARY,
    dims=ROWS,
    inputs={
        "log_probability": tensor("T", "V", draw=Draw.LOG_SHARES),
        "log_target": tensor("T", "V", grad=False, draw=Draw.LOG_SHARES),
    },
    options={"reduction": REDUCTIONS},
)
def kl_div_log_target(log_probability, log_target, reduction):
    from liger_kernel.ops.kl_div import LigerKLDivLossFunction

    return apply(
        LigerKLDivLossFunction, y_pred=log_probability, y_true=log_target, reduction=reduction, log_target=True
    )


@kl_div_log_target.reference
def kl_div_log_target_reference(log_probability, log_target, reduction):
    return reduced(log_target.exp() * (log_target - log_probability), reduction)


@op(
    requires=LIBRARY,
    dims=ROWS,
    inputs={
        "student": tensor("T", "V", draw=Draw.LOG_SHARES),
        "teacher": tensor("T", "V", grad=False, draw=Draw.LOG_SHARES),
        "labels": LABELS,
    },
    options={"beta": (0.5, 0.1, 0.0, 1.0)},
)
def jsd(student, teacher, labels, beta):
    from liger_kernel.ops.jsd import LigerJSDFunction

    decline_limits(beta)
    return LigerJSDFunction.apply(student, teacher, labels, beta, IGNORED)


@jsd.reference
def jsd_reference(student, teacher, labels, beta):
    return mean_of_kept(generalised_jsd(student, teacher, beta), labels)


@op(
    requires=LIBRARY,
    dims={"V": width(20_000), "T": tokens(160), "HS": width(128), "HT": width(128)},
    inputs={
        "student": tensor("T", "HS"),
        "student_weight": tensor("V", "HS"),
        "teacher": tensor("T", "HT", grad=False),
        "teacher_weight": tensor("V", "HT", grad=False),
        "labels": LABELS,
    },
    options={"beta": (0.5, 0.1, 0.0, 1.0), "temperature": (1.0, 2.0)},
)
def fused_linear_jsd(student, student_weight, teacher, teacher_weight, labels, beta, temperature):
    import torch
    from liger_kernel.ops.fused_linear_jsd import LigerFusedLinearJSDFunction

    decline_limits(beta)
    return apply(
        LigerFusedLinearJSDFunction,
        student_input=student,
        student_weight=student_weight,
        teacher_input=teacher,
        teacher_weight=teacher_weight,
        shift_labels=labels,
        jsd_beta=beta,
        ignore_index=IGNORED,
        temperature=temperature,
        # The default sums gradients over chunks in the parameters' type, which is documented as less precise.
        accum_dtype=None if student.dtype is torch.float32 else torch.float32,
    )


@fused_linear_jsd.reference
def fused_linear_jsd_reference(student, student_weight, teacher, teacher_weight, labels, beta, temperature):
    student = log_softmax(student @ student_weight.T / temperature)
    teacher = log_softmax(teacher @ teacher_weight.T / temperature)
    return mean_of_kept(generalised_jsd(student, teacher, beta), labels)


@op(
    requires=LIBRARY,
    dims=ROWS,
    inputs={
        "p": tensor("T", "V", draw=Draw.SHARES),
        "q": tensor("T", "V", grad=False, draw=Draw.SHARES),
        "labels": LABELS,
    },
    options={"reduction": REDUCTIONS},
)
def tvd(p, q, labels, reduction):
    from liger_kernel.ops.tvd import LigerTVDLossFunction

    return LigerTVDLossFunction.apply(p, q, labels, reduction, IGNORED)


@tvd.reference
def tvd_reference(p, q, labels, reduction):
    distance = 0.5 * (p - q).abs()
    if labels is None:
        return reduced(distance, reduction)
    kept = labels != IGNORED
    return reduced(distance.where(kept[:, None], 0.0), reduction, rows=kept.sum().clamp(min=1))


def decline_limits(beta):
    """Decline the limits of the mixture's weight where the release documents an open interval.

    Raises:
        NotImplementedError: before 0.5.0, kernels take beta as a number and have no code for its limits.
    """
    from liger_kernel.ops.jsd import _jsd_kernel

    if beta in {0.0, 1.0} and not any(one.name == "beta" and one.is_constexpr for one in _jsd_kernel.params):
        raise NotImplementedError("JSD of this release is declared for 0 < beta < 1")


def reduced(loss, reduction, rows=None):
    """Reduce like PyTorch's KLDivLoss; means are over the rows that are not ignored."""
    rows = loss.shape[0] if rows is None else rows
    match reduction:
        case "none":
            return loss
        case "sum":
            return loss.sum()
        case "mean":
            return loss.sum() / (rows * loss.shape[1])
        case "batchmean":
            return loss.sum() / rows


def mean_of_kept(by_row, labels):
    """The mean over the rows whose label is not ignored."""
    if labels is None:
        return by_row.sum() / by_row.shape[0]
    kept = labels != IGNORED
    return by_row.where(kept, 0.0).sum() / kept.sum().clamp(min=1)


def generalised_jsd(student, teacher, beta):
    """`beta KL(P || M) + (1 - beta) KL(Q || M)` of each row; M is the mixture.  Limits: KL(P || Q), KL(Q || P)."""
    if beta == 0.0:
        return (teacher.exp() * (teacher - student)).sum(-1)
    if beta == 1.0:
        return (student.exp() * (student - teacher)).sum(-1)
    top = student.maximum(teacher).detach()
    mixture = top + (beta * (teacher - top).exp() + (1 - beta) * (student - top).exp()).log()
    p, q = teacher.exp() * (teacher - mixture), student.exp() * (student - mixture)
    return (beta * p + (1 - beta) * q).sum(-1)


def log_softmax(logits):
    """Log-softmax in elementary operations."""
    shifted = logits - logits.detach().amax(-1, keepdim=True)
    return shifted - shifted.exp().sum(-1, keepdim=True).log()
