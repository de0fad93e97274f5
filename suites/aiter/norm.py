"""Norms of aiter: root mean square and layer norms, with a residual, with a pad, and with a result of eight bits."""

from harness.suite import DType, op, tensor, tokens, width

LIBRARY = {"requires": ("amd-aiter",), "stubs": {"aiter": "aiter_stubs.py"}}
EPS = 1e-5
LARGEST = 127.0
ROWS = {"T": tokens(1024), "D": width(2048)}


def rms(x, weight):
    return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * weight


def centred(x, weight, bias):
    rows = x - x.mean(-1, keepdim=True)
    return rows / (rows.square().mean(-1, keepdim=True) + EPS).sqrt() * weight + bias


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={"x": tensor("T", "D"), "weight": tensor("D")},
    contiguous="rows",
    apart=("T",),
)
def rms_norm(x, weight):
    from aiter.ops.triton.normalization.rmsnorm import rms_norm as apply

    return apply(x, weight, EPS)


@rms_norm.reference
def rms_norm_reference(x, weight):
    return rms(x, weight)


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={"x": tensor("T", "D", grad=False), "weight": tensor("D", grad=False)},
    apart=("T",),
)
def rms_norm_of_inference(x, weight):
    from aiter.ops.triton.normalization.rmsnorm import rmsnorm_forward_inference

    return rmsnorm_forward_inference(x, weight, EPS)


@rms_norm_of_inference.reference
def rms_norm_of_inference_reference(x, weight):
    return rms(x, weight)


@op(
    **LIBRARY,
    dims={"T": tokens(300, grows=False), "D": width(2048)},
    inputs={"x": tensor("T", "D"), "residual": tensor("T", "D", grad=False), "weight": tensor("D")},
    contiguous=True,
    apart=("T",),
)
def rms_norm_of_sum(x, residual, weight):
    """The gradient of the sum goes to x alone, and the sum itself has none."""
    import torch
    from aiter.ops.triton.normalization.rmsnorm import rmsnorm2d_fwd_with_add

    y, total = torch.empty_like(x), torch.empty_like(x)
    return rmsnorm2d_fwd_with_add(y, x, residual, total, weight, EPS), total


@rms_norm_of_sum.reference
def rms_norm_of_sum_reference(x, residual, weight):
    total = x + residual
    return rms(total, weight), total.detach()


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={"x": tensor("T", "D"), "weight": tensor("D"), "bias": tensor("D")},
    contiguous=True,
    apart=("T",),
)
def layer_norm(x, weight, bias):
    from aiter.ops.triton.normalization.norm import layer_norm as apply

    return apply(x, weight, bias, EPS)


@layer_norm.reference
def layer_norm_reference(x, weight, bias):
    return centred(x, weight, bias)


@op(
    **LIBRARY,
    dims={"T": tokens(300, grows=False), "D": width(2048)},
    inputs={
        "x": tensor("T", "D", grad=False),
        "residual": tensor("T", "D", grad=False),
        "weight": tensor("D", grad=False),
        "bias": tensor("D", grad=False),
    },
    contiguous=True,
    apart=("T",),
)
def layer_norm_of_sum(x, residual, weight, bias):
    import torch
    from aiter.ops.triton.normalization.norm import layernorm2d_fwd_with_add

    y, total = torch.empty_like(x), torch.empty_like(x)
    layernorm2d_fwd_with_add(y, x, residual, total, weight, bias, EPS)
    return y, total


@layer_norm_of_sum.reference
def layer_norm_of_sum_reference(x, residual, weight, bias):
    return centred(x + residual, weight, bias), x + residual


@op(
    **LIBRARY,
    dims={"T": tokens(512), "D": width(2048)},
    inputs={
        "x": tensor("T", "D", grad=False),
        "residual": tensor("T", "D", grad=False, optional=True),
        "weight": tensor("D", grad=False, contiguous=True),
    },
    options={"multiple": (0, 64, 256)},
    apart=("T",),
)
def padded_rms_norm(x, residual, weight, multiple):
    """Rows are padded with zeros to a multiple of some width."""
    from aiter.ops.triton.normalization.fused_add_rmsnorm_pad import fused_add_rmsnorm_pad

    return fused_add_rmsnorm_pad(x, weight, EPS, residual, multiple)


@padded_rms_norm.reference
def padded_rms_norm_reference(x, residual, weight, multiple, D):
    import torch

    total = x if residual is None else x + residual
    more = (0, -D % multiple if multiple else 0)
    padded, weight = torch.nn.functional.pad(total, more), torch.nn.functional.pad(weight, more)
    y = padded / (total.square().mean(-1, keepdim=True) + EPS).sqrt() * weight
    return y if residual is None else (y, total)


@op(
    **LIBRARY,
    dims={"T": tokens(512), "D": width(2048)},
    inputs={
        "x": tensor("T", "D", grad=False),
        "residual": tensor("T", "D", grad=False, optional=True),
        "weight": tensor("D", grad=False),
    },
    dtypes=(DType.BF16, DType.FP16),
    apart=("T",),
)
def fused_rms_norm(x, residual, weight):
    from aiter.ops.triton.normalization.fused_rmsnorm_add import fused_rmsnorm_add

    return fused_rmsnorm_add(x, weight, EPS, residual)


@fused_rms_norm.reference
def fused_rms_norm_reference(x, residual, weight):
    total = x if residual is None else x + residual
    return rms(total, weight) if residual is None else (rms(total, weight), total)


QUANTISED = {
    **LIBRARY,
    "dims": {"T": tokens(256, grows=False), "D": width(2048)},
    "contiguous": True,
    "apart": ("T",),
    "waives": frozenset({"precision"}),  # a number between two integers goes to either
}
X = tensor("T", "D", grad=False)
OF_COLUMNS = tensor("D", grad=False)


def quantised(rows):
    """Return the integers of eight bits that stand for the rows, truncated, and the scale of each row."""
    import torch

    largest = rows.abs().amax(-1)
    scale = torch.where(largest == 0, 1, largest / LARGEST)  # of a row of zeros any scale would do
    return (rows / scale[:, None]).trunc().to(torch.int8), scale


def stored(x):
    """Return room for the integers and the scales of the rows."""
    import torch

    return torch.empty_like(x, dtype=torch.int8), x.new_empty(len(x), dtype=torch.float32)


def number(integers, scale):
    return integers.float() * scale[:, None], scale


@op(**QUANTISED, inputs={"x": X, "weight": OF_COLUMNS})
def rms_norm_in_integers(x, weight):
    from aiter.ops.triton.normalization.rmsnorm import rmsnorm2d_fwd_with_dynamicquant

    y, scale = stored(x)
    rmsnorm2d_fwd_with_dynamicquant(y, x, scale, weight, EPS)
    return number(y, scale)


@rms_norm_in_integers.reference
def rms_norm_in_integers_reference(x, weight):
    return number(*quantised(rms(x, weight)))


@op(**QUANTISED, inputs={"x": X, "factors": tensor("D", grad=False, dtype=DType.FP32), "weight": OF_COLUMNS})
def smoothed_rms_norm_in_integers(x, factors, weight):
    from aiter.ops.triton.normalization.rmsnorm import rmsnorm2d_fwd_with_smoothquant

    y, scale = stored(x)
    rmsnorm2d_fwd_with_smoothquant(y, x, factors, scale, weight, EPS)
    return number(y, scale)


@smoothed_rms_norm_in_integers.reference
def smoothed_rms_norm_in_integers_reference(x, factors, weight):
    return number(*quantised(rms(x, weight) * factors))


@op(**QUANTISED, inputs={"x": X, "residual": X, "weight": OF_COLUMNS})
def rms_norm_of_sum_in_integers(x, residual, weight):
    import torch
    from aiter.ops.triton.normalization.rmsnorm import rmsnorm2d_fwd_with_add_dynamicquant

    (y, scale), total = stored(x), torch.empty_like(x)
    rmsnorm2d_fwd_with_add_dynamicquant(y, x, residual, total, scale, weight, EPS)
    return *number(y, scale), total


@rms_norm_of_sum_in_integers.reference
def rms_norm_of_sum_in_integers_reference(x, residual, weight):
    return *number(*quantised(rms(x + residual, weight))), x + residual


@op(**QUANTISED, inputs={"x": X, "weight": OF_COLUMNS, "bias": OF_COLUMNS})
def layer_norm_in_integers(x, weight, bias):
    from aiter.ops.triton.normalization.norm import layernorm2d_fwd_with_dynamicquant

    y, scale = stored(x)
    layernorm2d_fwd_with_dynamicquant(y, x, scale, weight, bias, EPS)
    return number(y, scale)


@layer_norm_in_integers.reference
def layer_norm_in_integers_reference(x, weight, bias):
    return number(*quantised(centred(x, weight, bias)))
