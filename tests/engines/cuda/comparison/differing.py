"""A suite of launches on which the virtual and the hardware GPU agree, and of launches on which they differ."""

from typing import Any

from ci.fault_suite.faults import by_rows, kernels, planted

EXPECTED = {"stores_its_address": ("agreement", "y")}
"""By op, the oracle that fails and the place in its signature."""


@planted
def agrees(x: Any) -> Any:
    return by_rows(kernels().add_one, x)


@planted
def differs_by_cancelling(x: Any) -> Any:
    from tests.engines.cuda.comparison import differing_kernels

    by_rows(differing_kernels.cancel, x)
    return x + 1


@planted
def differs_by_what_tensor_cores_cut(x: Any) -> Any:
    import torch

    from tests.engines.cuda.comparison import differing_kernels

    numbers = torch.arange(64 * 1024, device=x.device)
    left, right = ((numbers % count + 1) / count for count in (97, 89))
    left, right = left.to(torch.float16).view(64, 1024), right.to(torch.float16).view(1024, 64)
    exact = (left.double() @ right.double()).float()
    differing_kernels.multiply_less[(1,)](left, right, exact, x.new_empty(64, 64), 1024)
    return x + 1


@planted
def stores_its_address(x: Any) -> Any:
    from tests.engines.cuda.comparison import differing_kernels

    by_rows(differing_kernels.add_one_and_address, x)
    return x + 1


@planted
def strays_on_both_gpus(x: Any) -> Any:
    y = x + 1
    kernels().store_at[(1,)](y, 1 << 44)
    return y


@planted
def strays_on_hardware_only(x: Any) -> Any:
    from tests.engines.cuda.comparison import differing_kernels

    y = x + 1
    differing_kernels.store_far_outside_unless_at[(1,)](y, y.data_ptr())
    return y


@planted
def multiplies_by_two_widths(x: Any) -> Any:
    import torch

    from tests.engines.cuda.comparison import differing_kernels

    numbers = torch.arange(64 * 64, device=x.device)
    left, wide, narrow = ((numbers % count - count // 2).to(torch.float16) for count in (7, 5, 3))
    differing_kernels.multiply_by_two_widths[(1,)](left, wide, narrow, x.new_empty(64, 64), x.new_empty(64, 16))
    return x + 1


@planted
def copies_sums_of_products(x: Any) -> Any:
    import torch

    from tests.engines.cuda.comparison import differing_kernels

    numbers = torch.arange(64 * 13, device=x.device).remainder(37).to(torch.bfloat16) / 7
    differing_kernels.how_far_copies_of_sums_are_apart[(1,)](numbers[3:16].clone(), numbers, x.new_empty(64, 13))
    return x + 1
