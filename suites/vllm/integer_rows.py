"""Rows of vLLM as integers of eight bits: each is scaled so that its largest magnitude becomes 127."""

from harness.suite import op, tensor, tokens, width

LEAST = 1e-10
"""The least magnitude that counts as a row's largest."""
HALF = 0.51
"""A number half-way between two integers goes to either, and a rounded factor moves it a little."""


@op(
    requires=("sources:vllm",),
    stubs={"vllm": "vllm_stubs.py"},
    dims={"T": tokens(512), "D": width(4096)},
    inputs={"x": tensor("T", "D", grad=False)},
    contiguous=True,
    apart=("T",),
)
def rows_of_integers(x):
    """The results are how much further than half a step an integer is from its number, and the steps."""
    from vllm.model_executor.layers.quantization.utils.int8_utils import per_token_quant_int8

    codes, steps = per_token_quant_int8(x)
    distance = (codes - x.float() / steps).abs()
    return (distance - HALF).clamp(min=0), steps


@rows_of_integers.reference
def rows_of_integers_reference(x):
    return x * 0, x.abs().amax(-1, keepdim=True).clamp(min=LEAST) / 127
