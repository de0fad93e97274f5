"""A suite whose ops check the emulation of an RTX PRO 6000, and of 48 SMs, on another GPU."""

from typing import Any

from harness.suite import DType, op, tensor, tokens

FEW = 48
PROGRAMS = 4096
PASSED_ELEMENTS = 1 << 26
PASSES = 100


@op(dims={"T": tokens(8)}, inputs={"x": tensor("T", grad=False)}, dtypes=(DType.FP32,))
def sees_an_rtx_pro_6000(x: Any) -> Any:
    """Host code sees the emulated model; kernels are compiled for the hardware."""
    import torch
    import triton

    driver: Any = triton.runtime.driver.active
    properties = torch.cuda.get_device_properties(x.device)
    assert properties.multi_processor_count == driver.utils.get_device_properties(0)["multiprocessor_count"] == 188
    assert torch.cuda.get_device_capability() == (properties.major, properties.minor) == (12, 0)
    assert "RTX PRO 6000" in torch.cuda.get_device_name(0)
    assert driver.utils.get_device_properties(0)["max_shared_mem"] == properties.shared_memory_per_block_optin == 101376
    assert driver.get_current_target().arch != 120
    return x + 1


@op(dims={"T": tokens(8)}, inputs={"x": tensor("T")}, dtypes=(DType.FP32,))
def runs_on_few_sms(x: Any) -> Any:
    """Adds the number of SMs used beyond the limit, forward and backward, which is zero."""
    import torch

    from tests.engines.cuda.emulated_kernels import sm_of_each_program

    def too_many() -> int:
        numbers = torch.zeros(PROGRAMS, dtype=torch.int32, device="cuda")
        sm_of_each_program[(PROGRAMS,)](numbers)
        return max(0, int(numbers.unique().numel()) - FEW)

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            del ctx
            return 2 * x + too_many()

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            del ctx
            return 2 * gradients[0] + too_many()

    return Twice.apply(x)


@op(dims={"T": tokens(8)}, inputs={"x": tensor("T", grad=False)}, dtypes=(DType.FP32,))
def adds_late(x: Any) -> Any:
    """Returns while torch's kernels still run, long after the call."""
    ones = x.new_ones(PASSED_ELEMENTS)
    for _ in range(PASSES):
        ones = ones * 1.0
    return x + ones[: x.shape[0]]


@adds_late.reference
@sees_an_rtx_pro_6000.reference
def one_more(x: Any) -> Any:
    return x + 1


@runs_on_few_sms.reference
def twice(x: Any) -> Any:
    return 2 * x


@op(dims={"T": tokens(8)}, inputs={"x": tensor("T", grad=False)}, dtypes=(DType.FP32,))
def draws_at_random(x: Any) -> Any:
    """Draws random numbers on the GPU, like dropout."""
    import torch

    return x + torch.rand_like(x)


@draws_at_random.reference
def draws_at_random_reference(x: Any) -> Any:
    return x + 0.5
