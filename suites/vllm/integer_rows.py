"""Rows of vLLM as integers of eight bits: each is scaled so that its largest magnitude becomes 127."""

from harness.suite import dequantised, op, tensor, tokens, width

LEAST = 1e-10
"""The least magnitude that counts as a row's largest."""


@op(
    requires=("sources:vllm",),
    stubs={"vllm": "vllm_stubs.py"},
    dims={"T": tokens(512), "D": width(4096)},
    inputs={"x": tensor("T", "D", grad=False)},
    contiguous=True,
    apart=("T",),
)
def rows_of_integers(x):
    from vllm.model_executor.layers.quantization.utils.int8_utils import per_token_quant_int8

    codes, scales = per_token_quant_int8(x)
    return dequantised(codes, scales), scales


@rows_of_integers.reference
def rows_of_integers_reference(x):
    steps = x.abs().amax(-1, keepdim=True).clamp(min=LEAST) / 127
    return (x / steps).round() * steps, steps
