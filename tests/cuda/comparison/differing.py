"""A suite of what both GPUs agree on, and of what they do not; `EXPECTED` says how each is judged."""

from typing import Any

from tests.cuda.faults import by_rows, planted

EXPECTED = {"tells_its_address": ("agreement", "y")}
"""By op, the oracle and the place in the signature."""


@planted
def agrees(x: Any) -> Any:
    from tests.cuda import fault_kernels

    return by_rows(fault_kernels.add_one, x)


@planted
def differs_by_cancelling(x: Any) -> Any:
    from tests.cuda import fault_kernels

    by_rows(fault_kernels.cancel, x)
    return x + 1


@planted
def differs_by_what_tensor_cores_cut(x: Any) -> Any:
    import torch

    from tests.cuda import fault_kernels

    numbers = torch.arange(64 * 1024, device=x.device)
    left, right = ((numbers % count + 1) / count for count in (97, 89))
    left, right = left.to(torch.float16).view(64, 1024), right.to(torch.float16).view(1024, 64)
    exact = (left.double() @ right.double()).float()
    fault_kernels.multiply_less[(1,)](left, right, exact, x.new_empty(64, 64), 1024)
    return x + 1


@planted
def tells_its_address(x: Any) -> Any:
    from tests.cuda import fault_kernels

    by_rows(fault_kernels.add_one_and_tell_address, x)
    return x + 1


@planted
def strays_on_the_real_gpu(x: Any) -> Any:
    from tests.cuda import fault_kernels

    y = x + 1
    fault_kernels.store_at[(1,)](y, 1 << 44)
    return y


@planted
def strays_on_the_real_gpu_alone(x: Any) -> Any:
    from tests.cuda import fault_kernels

    y = x + 1
    fault_kernels.store_far_outside_unless_at[(1,)](y, y.data_ptr())
    return y


@planted
def multiplies_by_two_widths(x: Any) -> Any:
    import torch

    from tests.cuda import fault_kernels

    numbers = torch.arange(64 * 64, device=x.device)
    left, wide, narrow = ((numbers % count - count // 2).to(torch.float16) for count in (7, 5, 3))
    fault_kernels.multiply_by_two_widths[(1,)](left, wide, narrow, x.new_empty(64, 64), x.new_empty(64, 16))
    return x + 1


@planted
def copies_sums_of_products(x: Any) -> Any:
    import torch

    from tests.cuda import fault_kernels

    numbers = torch.arange(64 * 13, device=x.device).remainder(37).to(torch.bfloat16) / 7
    fault_kernels.how_far_copies_of_sums_are_apart[(1,)](numbers[3:16].clone(), numbers, x.new_empty(64, 13))
    return x + 1
