"""Activations of vLLM that end in eight bits: SiLU times a gate, quantised by groups of a row.

A group of 128 numbers is scaled so that its largest magnitude becomes 448, or 224 on an MI300.  Results are compared as
the numbers that the rounded ones stand for, with their scales.
"""

from harness.suite import Dim, DType, beside, dequantised, op, tensor

GROUP = 128
LEAST = 1e-10
"""The least magnitude that counts as a group's largest."""


@op(
    requires=("sources:vllm",),
    stubs={"vllm": "vllm_stubs.py"},
    dims={"MB": Dim(low=1, high=6, grows=True), "NB": Dim(low=1, high=4)},
    inputs={"x": tensor(f"{GROUP}*MB", f"{2 * GROUP}*NB", grad=False)},
    dtypes=(DType.BF16, DType.FP16),
    waives=frozenset({"precision"}),  # a number between two steps of eight bits goes to either
)
def silu_times_gate(x):
    from vllm.model_executor.layers.quantization.utils.fp8_utils import silu_mul_per_token_group_quant_fp8_colmajor

    y, scales = silu_mul_per_token_group_quant_fp8_colmajor(x.contiguous(), use_ue8m0=False)
    return dequantised(y, scales, group=GROUP), scales


@silu_times_gate.reference
def silu_times_gate_reference(x):
    activated, gate = x.chunk(2, -1)
    y = activated * activated.sigmoid() * gate
    stubs = beside(__file__, "vllm_stubs.py")
    largest, kind = stubs.LARGEST_FP8, stubs.PLATFORM.fp8_dtype()
    scales = y.abs().unflatten(-1, (-1, GROUP)).amax(-1).clamp(min=LEAST) / largest
    steps = (y / scales.repeat_interleave(GROUP, -1)).clamp(-largest, largest)
    return dequantised(steps.to(kind).to(x.dtype), scales, group=GROUP), scales
