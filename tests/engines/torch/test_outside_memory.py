"""Memory from outside a captured graph is free once the program has dropped it, and goes to the first that fits."""

import torch

from harness.engines.torch.outside_memory import AllocationWatch, OutsideMemory
from harness.model.ending import Source

LINE = Source(file="model.py", line=7)


def nothing(tensor: torch.Tensor) -> bool:
    """Return False: the graph of a test has no memory of its own."""
    del tensor
    return False


def users_of_free(outside: OutsideMemory) -> list[tuple[str, str]]:
    return [user for memory in outside.free() for user in memory.users]


def test_memory_is_free_once_no_tensor_of_the_program_holds_it() -> None:
    outside, workspace, weight = OutsideMemory(), torch.ones(8), torch.nn.Parameter(torch.ones(8))
    step = outside.aliased((workspace, weight, 3, [workspace[2:]]), nothing)
    outside.note_use("sum_kernel", {"partial": step[0], "w": step[1]})
    view = workspace[:2]
    del workspace
    assert users_of_free(outside) == []
    del view
    assert users_of_free(outside) == [("sum_kernel", "partial")]
    assert (step[0].tolist(), step[3][0].tolist()) == ([1.0] * 8, [1.0] * 6)


def test_memory_of_the_graph_and_of_its_host_code_is_no_outside_memory() -> None:
    outside, own, constant = OutsideMemory(), torch.ones(4), torch.ones(4)
    address = own.data_ptr()
    step = outside.aliased((own, constant), lambda tensor: tensor.data_ptr() == address)
    outside.note_use("sum_kernel", {"own": step[0], "constant": step[1]})
    del own, constant
    outside.forget_free()
    assert users_of_free(outside) == []


def test_freed_memory_goes_to_the_first_allocation_that_fits() -> None:
    outside, workspace = OutsideMemory(), torch.ones(8)
    step = outside.aliased((workspace,), nothing)
    kept = torch.ones(2)
    with AllocationWatch(outside, lambda: LINE):
        before = torch.zeros(8)
        del workspace
        others = kept.view(2, 1), torch.empty(9), kept.add_(1)
        taker = torch.empty(5)
        later = torch.empty(4)
    (memory,) = outside.free()
    assert memory.taker is not None
    assert (memory.taker.operator, memory.taker.bytes, memory.taker.source) == ("aten.empty.memory_format", 20, LINE)
    assert len((*step, before, *others, taker, later)) == 7
