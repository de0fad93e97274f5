"""Memory that nothing has written is followed through copies, and reported where torch computes with it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from harness.execution.followed_memory import FollowedMemory
from harness.model.run import AccessSite, Source, UnwrittenUse

HERE = str(Path(__file__).resolve())
Work = Callable[[torch.Tensor], object]


def uses_of(work: Callable[[], object]) -> list[UnwrittenUse]:
    memory, uses = FollowedMemory(), list[UnwrittenUse]()
    memory.on_use = lambda use, _: uses.append(use)
    with memory:
        work()
    return uses


def half_written(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a tensor of shape (4, 3) whose last two rows were never written."""
    made = torch.empty(4, 3, dtype=dtype)
    made[:2] = 1
    return made


USES: dict[str, Work] = {
    "sum": lambda x: x.sum(),
    "product": lambda x: x @ torch.ones(3, 2, dtype=x.dtype),
    "comparison": lambda x: x > 0,
    "assertion": lambda x: torch.testing.assert_close(x[2:], x[2:].clone(), equal_nan=True),
    "equal": lambda x: torch.equal(x, torch.ones(4, 3, dtype=x.dtype)),
    "item": lambda x: x[3, 2].item(),
    "truth": lambda x: bool(x[3, 2]),
    "of a copy": lambda x: x.clone().sum(),
    "of a view": lambda x: x.T.reshape(-1)[-1:].sum(),
    "of arithmetic": lambda x: (x * 2 + 1).abs().sum(),
    "of a conversion": lambda x: x.to(torch.float64 if x.is_floating_point() else torch.int64).sum(),
    "of a selection": lambda x: torch.cat([x, x])[torch.tensor([0, 7])].sum(),
    "of a copy in place": lambda x: torch.zeros(4, 3, dtype=x.dtype).copy_(x).sum(),
    "in place": lambda x: x.add_(1).sum(),
    "of memory that holds zeros elsewhere": lambda x: (
        torch.zeros(8, 3, dtype=x.dtype).index_copy_(0, torch.arange(4), x).sum()
    ),
}
NO_USES: dict[str, Work] = {
    "of the written part": lambda x: x[:2].sum(),
    "of the form": lambda x: (x.shape, x.numel(), x.dtype, torch.zeros_like(x).sum(), torch.empty_like(x)),
    "copies": lambda x: (x.clone(), x.T.contiguous(), x.reshape(-1), x[1:3], x.to(torch.float64), torch.stack([x, x])),
    "of the written part of a copy": lambda x: x.clone()[:2].sum(),
    "of the written part of arithmetic": lambda x: (x * 2 + 1).to(torch.float64)[:2].sum(),
    "of what a mask leaves": lambda x: torch.where(torch.arange(4)[:, None] < 2, x, 0).sum(),
    "of what a filled mask leaves": lambda x: x.masked_fill(torch.arange(4)[:, None] >= 2, 0).sum(),
    "filled later": lambda x: (x[2:].fill_(1), x.sum()),
    "copied into": lambda x: (x.copy_(torch.ones(4, 3)), x.sum()),
    "as out": lambda x: (torch.add(torch.ones(4, 3), torch.ones(4, 3), out=x.float()), x.zero_().sum()),
    "set": lambda x: (x.__setitem__(slice(2, None), 5), x.sum()),
    "random": lambda x: (x.random_(0, 5), x.sum()),
    "printed": lambda x: (repr(x), str(x), f"{x}"),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("work", USES.values(), ids=USES)
def test_computing_with_unwritten_elements_is_one_use(work: Work, dtype: torch.dtype) -> None:
    (use,) = uses_of(lambda: work(half_written(dtype)))
    assert use.site.source is not None
    assert use.site.source.file == HERE
    assert use.cells > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("work", NO_USES.values(), ids=NO_USES)
def test_copying_unwritten_elements_is_no_use(work: Work, dtype: torch.dtype) -> None:
    assert uses_of(lambda: work(half_written(dtype))) == []


def test_a_use_names_the_allocation_the_operator_and_the_elements() -> None:
    def work() -> object:
        return half_written().max()

    (use,) = uses_of(work)
    assert use == UnwrittenUse(
        site=AccessSite(
            kernel="", launch=0, argument="", source=Source(file=HERE, line=half_written.__code__.co_firstlineno + 2)
        ),
        operator="torch.Tensor.max",
        used_at=Source(file=HERE, line=work.__code__.co_firstlineno + 1),
        dtype="float32",
        shape=(4, 3),
        cells=6,
        first_cell=(2, 0),
    )


def test_each_allocation_is_reported_once() -> None:
    def work() -> None:
        for _ in range(2):
            made = half_written()
            made.sum()
            made.clone().max()

    assert [use.operator for use in uses_of(work)] == ["torch.Tensor.sum"] * 2


@pytest.mark.parametrize("take", [torch.Tensor.numpy, torch.Tensor.tolist])
def test_memory_that_the_host_gets_is_handed_over(take: Work) -> None:
    assert [use.is_handed_over for use in uses_of(lambda: take(half_written()))] == [True]
    assert uses_of(lambda: take(half_written()[:2])) == []


def test_other_views_of_the_memory_are_known() -> None:
    def bytes_of_two_rows() -> torch.Tensor:
        return half_written().view(torch.uint8)[1:3].sum()

    as_bytes = uses_of(bytes_of_two_rows)
    assert [(use.shape, use.cells) for use in as_bytes] == [((2, 12), 12)]
    wider = uses_of(lambda: half_written(torch.bfloat16).reshape(-1)[:12].view(torch.int32).sum())
    assert [(use.shape, use.cells) for use in wider] == [((6,), 3)]


def test_one_byte_types_are_not_followed() -> None:
    assert uses_of(lambda: half_written(torch.int8).sum()) == []


def test_nothing_is_followed_while_paused() -> None:
    memory, uses = FollowedMemory(), list[UnwrittenUse]()
    memory.on_use = lambda use, _: uses.append(use)
    with memory:
        made = half_written()
        with memory.paused():
            made.sum()
        assert uses == []
        made.sum()
    assert len(uses) == 1
