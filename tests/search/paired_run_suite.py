"""A suite whose cases complete, and whose paired runs break off: in reversed order, or with one SM."""

from typing import Any

from harness.suite import Dim, DType, op, tensor, tokens

OVERFULL = "../../suites/planted/kernels/too_much_shared_memory.py"


@op(dims={"T": tokens(256, grows=False)}, inputs={"x": tensor("T", grad=False)}, dtypes=(DType.FP32,))
def scan(x: Any) -> Any:
    from tests.search.paired_run_suite_kernels import scan

    return scan(x)


@scan.reference
def sums_so_far(x: Any) -> Any:
    return x.cumsum(0)


@op(
    dims={"T": tokens(128, grows=False), "D": Dim(low=16, high=128, choices=(16, 32, 128))},
    inputs={"x": tensor("T", "D", grad=False), "w": tensor("D", "D", grad=False)},
    dtypes=(DType.FP16,),
)
def product(x: Any, w: Any) -> Any:
    import torch

    from harness.suite import beside
    from tests.search.paired_run_suite_kernels import count_kernel

    sm_count = torch.cuda.get_device_properties(0).multi_processor_count
    count_kernel[(1,)](torch.empty(1, dtype=torch.int32, device=x.device), NUM_SMS=sm_count)
    if sm_count == 1:
        raise ValueError("no workspace for one SM")
    return beside(__file__, OVERFULL).product(x, w, tile=128, stages=5)


@product.reference
def whole_product(x: Any, w: Any) -> Any:
    return x @ w
