"""The activations of Liger-Kernel's MLPs: SwiGLU, GeGLU in its tanh form, squared ReLU."""

from harness.suite import beside, op, tensor, tokens, width

LIBRARY = ("liger-kernel",)
GATED = {"dims": {"D": width(20_000), "T": tokens(2048)}, "inputs": {"gate": tensor("T", "D"), "up": tensor("T", "D")}}
apply = beside(__file__, "applying.py").apply


@op(
    requires=LIBRARY,
    **GATED,
    options={"gate_multiplier": (1.0, 0.5), "down_multiplier": (1.0, 0.25)},
    independent=("T",),
)
def swiglu(gate, up, gate_multiplier, down_multiplier):
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    return apply(LigerSiLUMulFunction, a=gate, b=up, gate_multiplier=gate_multiplier, down_multiplier=down_multiplier)


@swiglu.reference
def swiglu_reference(gate, up, gate_multiplier, down_multiplier):
    gate = gate * gate_multiplier
    return gate * gate.sigmoid() * up * down_multiplier


@op(
    requires=LIBRARY,
    dims={"D": width(10_000), "T": tokens(2048)},
    inputs={"fused": tensor("T", "2*D")},
    options={"in_place": (False, True)},
    independent=("T",),
)
def swiglu_fused_gate_up(fused, in_place):
    from liger_kernel.ops.swiglu import LigerFusedGateUpSiLUMulFunction

    return LigerFusedGateUpSiLUMulFunction.apply(fused, in_place)


@swiglu_fused_gate_up.reference
def swiglu_fused_gate_up_reference(fused):
    gate, up = fused.chunk(2, -1)
    return gate * gate.sigmoid() * up


@op(requires=LIBRARY, **GATED, independent=("T",))
def geglu(gate, up):
    from liger_kernel.ops.geglu import LigerGELUMulFunction

    return LigerGELUMulFunction.apply(gate, up)


@geglu.reference
def geglu_reference(gate, up):
    bent = (gate + 0.044715 * gate * gate * gate) * (2 / 3.141592653589793) ** 0.5
    return 0.5 * gate * (1 + bent.tanh()) * up


@op(requires=LIBRARY, dims={"T": tokens(2048), "D": width(8192)}, inputs={"x": tensor("T", "D")}, independent=("T",))
def relu_squared(x):
    from liger_kernel.ops.relu_squared import LigerReLUSquaredFunction

    return LigerReLUSquaredFunction.apply(x)


@relu_squared.reference
def relu_squared_reference(x):
    return x.relu() * x.relu()
