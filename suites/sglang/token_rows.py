"""Steps of SGLang row by row: gates, sums of experts, stored keys, draft tokens, and numbers of eight bits."""

from harness.suite import Dim, Draw, DType, beside, integers, op, tensor, tokens, width

LIBRARY = {"requires": ("sglang",), "stubs": {"sglang": "sglang_stubs.py"}}
OPS = beside(__file__, "places.py").OPS
function = beside(__file__, "places.py").function
ABSENT = -1
ROUNDED = frozenset({"precision"})  # a number between two steps of eight bits goes to either


@op(
    **LIBRARY,
    dims={"T": tokens(600), "D": width(4096)},
    inputs={
        "x": tensor("T", "D", grad=False),
        "gate": tensor("D", grad=False),
        "shared": tensor("T", "D", grad=False),
        "routed": tensor("T", "D", grad=False),
    },
    contiguous=True,
    apart=("T",),
)
def shared_expert_added(x, gate, shared, routed):
    launch = function(
        "fused_gate_sigmoid_mul_add", f"{OPS}layernorm.shared_expert_gate", f"{OPS}elementwise.elementwise"
    )
    routed = routed.clone()
    launch(x, gate, shared, routed)
    return routed


@shared_expert_added.reference
def shared_expert_added_reference(x, gate, shared, routed):
    return routed + (x @ gate).sigmoid()[:, None] * shared


@op(
    **LIBRARY,
    dims={"T": tokens(600), "D": width(4096)},
    inputs={"x": tensor("T", "D", grad=False), "scale": tensor(1, grad=False, dtype=DType.FP32, draw=Draw.POSITIVE)},
    options={"repeat": (False, True)},
    contiguous=True,
    waives=ROUNDED,
)
def fixed_scale(x, scale, repeat):
    codes, scales = function("static_quant_fp8", f"{OPS}quantization.fp8_kernel")(x, scale, repeat)
    return codes.float(), scales


@fixed_scale.reference
def fixed_scale_reference(x, scale, repeat):
    return eight_bits(x / scale), scale.expand(len(x), 1) if repeat else scale


@op(
    **LIBRARY,
    dims={"T": tokens(600), "H": Dim(low=1, high=16), "D": Dim(low=1, high=600)},
    inputs={"x": tensor("T", "H", "D", grad=False, contiguous="rows")},
    waives=ROUNDED,
)
def one_scale_of_heads(x):
    """Heads come first, as a product by head leaves them."""
    launch = function("per_tensor_quant_mla_fp8", f"{OPS}quantization.fp8_kernel")
    codes, scale = launch(x.transpose(0, 1), x.new_zeros(1).float())
    return codes.float(), scale


@one_scale_of_heads.reference
def one_scale_of_heads_reference(x):
    scale = (x.abs().amax().clamp(min=1e-12) / largest())[None]
    return eight_bits(x.transpose(0, 1) / scale), scale


@op(
    **LIBRARY,
    dims={
        "T": Dim(low=1, high=60),
        "P": Dim(low=61, high=200, grows=True, largest=1 << 24),
        "N": Dim(low=1, high=600),
        "R": Dim(low=1, high=100),
    },
    inputs={
        "buffer": tensor("P", 1, "N+R", grad=False, contiguous=True),
        "places": integers("T", low=1, high="P", distinct=True),  # the first place is a pad's
        "first": tensor("T", 1, "N", grad=False, contiguous="rows"),
        "second": tensor("T", 1, "R", grad=False, contiguous="rows"),
    },
)
def stored_rows(buffer, places, first, second):
    buffer = buffer.clone()
    function("set_mla_kv_scale_buffer_triton", f"{OPS}kvcache.mla_buffer")(buffer, places, first, second)
    return buffer


@stored_rows.reference
def stored_rows_reference(buffer, places, first, second):
    import torch

    return buffer.index_put((places,), torch.cat((first, second), -1))


@op(
    **LIBRARY,
    dims={"T": tokens(300), "K": Dim(low=1, high=9), "D": width(2048), "E": Dim(low=1, high=32)},
    inputs={
        "x": tensor("T", "K", "D", grad=False),
        "weights": tensor("T", "K", grad=False, dtype=DType.FP32, draw=Draw.SHARES),
        "experts": integers("T", "K", high="E", ignore=ABSENT, optional=True),
        "local": integers("E", high="E", ignore=ABSENT, optional=True, dtype="int32"),
    },
    options={"factor": (None, 2.5)},
    contiguous=True,
    where=lambda at: at["experts"] == at["local"],
    apart=("T",),
)
def sum_of_experts(x, weights, experts, local, factor):
    """Results of experts that are absent, or on another GPU, do not count."""
    launch = function("moe_fused_mul_sum", f"{OPS}moe.moe_fused_mul_sum")
    return launch(x, weights, topk_ids=experts, expert_map=local, routed_scaling_factor=factor)


@sum_of_experts.reference
def sum_of_experts_reference(x, weights, experts, local, factor):
    import torch

    weights = weights.to(x.dtype) * (factor or 1.0)
    if experts is not None:
        weights = weights * ((experts >= 0) & (local[experts.clamp(min=0)] >= 0))
    return torch.einsum("tkd,tk->td", x, weights)


@op(
    **LIBRARY,
    dims={"B": Dim(low=1, high=4), "T": tokens(300), "D": width(3000)},
    inputs={"x": tensor("B", "T", "2*D", grad=False, contiguous=True)},
    dtypes=(DType.BF16,),
)
def packed_gate(x):
    return function("fused_packed_silu_mul_bitexact", f"{OPS}diffusion.activation.silu_mul_bitexact")(x)


@packed_gate.reference
def packed_gate_reference(x):
    first, second = x.chunk(2, -1)
    return first * first.sigmoid() * second


@op(
    **LIBRARY,
    dims={"B": tokens(32), "V": width(40_000), "S": Dim(low=1, high=5)},
    inputs={
        "logits": tensor("B", "V", grad=False, contiguous="rows", draw=Draw.LOGITS),
        "positions": integers("B", high=100_000, contiguous=True),
        "drafts": integers("B", "S", high=1000, optional=True, contiguous=True),
    },
    dtypes=(DType.FP32, DType.BF16),
)
def likeliest_token(logits, positions, drafts, S):
    """The positions advance by one, and the token goes into the last column of the drafts."""
    positions = positions.clone()
    drafts = None if drafts is None else drafts.clone()
    launch = function("draft_topk1_postprocess", f"{OPS}speculative.topk1")
    share, token = launch(logits, positions, drafts, S - 1)
    return share, logits.gather(1, token), positions, drafts


@likeliest_token.reference
def likeliest_token_reference(logits, positions, drafts):
    import torch

    best = logits.argmax(1)
    if drafts is not None:
        drafts = torch.cat((drafts[:, :-1], best[:, None]), 1)
    return logits.new_ones(len(logits), 1), logits.amax(1, keepdim=True), positions + 1, drafts


def is_mi300():
    """Return True for an AMD GPU whose numbers of eight bits have no infinity and no negative zero."""
    return beside(__file__, "sglang_stubs.py").is_architecture("gfx94")()


def largest():
    """Return the largest number of eight bits that SGLang uses."""
    return 224.0 if is_mi300() else 448.0


def eight_bits(x):
    import torch

    kind = torch.float8_e4m3fnuz if is_mi300() else torch.float8_e4m3fn

    return x.clamp(-largest(), largest()).to(kind).to(x.dtype)
