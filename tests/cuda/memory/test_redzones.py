"""Bands and gaps around tensors, in memory of the CPU: the same code that stands around them on a GPU."""

import ctypes
import re

import pytest
import torch
from torch.utils import dlpack

from harness.cuda.memory.redzones import ARENA_BYTES, BAND_BYTES, Damage, GuardedMemory
from harness.model.case import Layout
from harness.model.run import AddressSpace
from harness.ops.inputs import lay_out
from harness.ops.poison import count_poison

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)
FACTORIES = re.compile("(new_)?(empty|zeros|ones|full)")


@pytest.fixture
def memory() -> GuardedMemory:
    return GuardedMemory("cpu")


@pytest.fixture
def installed(memory: GuardedMemory, monkeypatch: pytest.MonkeyPatch) -> GuardedMemory:
    for owner in (torch, torch.Tensor):
        for name in [
            one for one in dir(owner) if one.removeprefix("new_").startswith(("empty", "zeros", "ones", "full"))
        ]:
            monkeypatch.setattr(owner, name, getattr(owner, name))  # what is put in its place goes with the test
    memory.install()
    return memory


def store(tensor: torch.Tensor, element: int, value: int = 0) -> None:
    """Store bytes where an element would be, counted from the tensor's first: it may lie outside."""
    size = tensor.element_size()
    ctypes.memset(tensor.data_ptr() + element * size, value, size)


def told(memory: GuardedMemory, tensor: torch.Tensor) -> list[tuple[AddressSpace, int, int]]:
    damages: tuple[Damage, ...] = memory.damages()
    assert {damage.address for damage in damages} <= {tensor.untyped_storage().data_ptr()}
    return [(damage.region, damage.cells, damage.element) for damage in damages]


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_lent_has_the_values_and_the_layout_of_what_it_copies(
    memory: GuardedMemory, dtype: torch.dtype, layout: Layout
) -> None:
    values = torch.arange(1, 7).reshape(2, 3).to(dtype)
    if dtype.is_floating_point:
        values = lay_out(values, layout)
    lent = memory.lend(values)
    assert (lent.dtype, lent.shape, lent.stride()) == (dtype, values.shape, values.stride())
    assert lent.storage_offset() == values.storage_offset()
    assert torch.equal(lent, values)
    assert not memory.damages()


def test_each_tensor_has_a_storage_of_its_own_and_only_leaves_are_leaves(memory: GuardedMemory) -> None:
    first, second = memory.lend(torch.ones(4, requires_grad=True)), memory.lend(torch.ones(4))
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in (first, second)}
    assert list(storages.values()) == [16, 16]
    assert first.requires_grad
    assert first.is_leaf
    assert not second.requires_grad
    with torch.no_grad():
        first.zero_()
    assert second.tolist() == [1.0] * 4


def test_nothing_is_put_around_a_tensor_without_elements(memory: GuardedMemory) -> None:
    lent = memory.lend(torch.zeros(3, 0, requires_grad=True))
    assert lent.shape == (3, 0)
    assert lent.requires_grad
    assert not memory.damages()


@pytest.mark.parametrize("element", [-1, 5, 100])
def test_a_store_into_a_band_belongs_to_the_tensor_at_its_side(memory: GuardedMemory, element: int) -> None:
    memory.lend(torch.ones(7))
    lent = memory.lend(torch.ones(5))
    memory.lend(torch.ones(7))
    store(lent, element)
    assert told(memory, lent) == [(AddressSpace.OUTSIDE_STORAGE, 1, element)]


def test_a_store_right_behind_a_tensor_that_ends_at_an_odd_byte_is_told(memory: GuardedMemory) -> None:
    lent = memory.lend(torch.ones(7, dtype=torch.uint8))
    store(lent, 7)
    assert told(memory, lent) == [(AddressSpace.OUTSIDE_STORAGE, 1, 7)]


def test_a_store_between_the_rows_of_a_strided_tensor_lies_in_a_gap(memory: GuardedMemory) -> None:
    memory.lend(lay_out(torch.ones(2, 3), Layout.STRIDED))
    lent = memory.lend(lay_out(torch.ones(2, 3), Layout.STRIDED))
    store(lent, 4)
    assert told(memory, lent) == [(AddressSpace.IN_GAP, 1, 4)]


def test_bands_stand_around_tensors_larger_than_what_is_allocated_at_once(memory: GuardedMemory) -> None:
    large = memory.lend(torch.ones(ARENA_BYTES // 4 + 3))
    small = [memory.lend(torch.full((3,), float(number))) for number in range(2 * ARENA_BYTES // BAND_BYTES)]
    assert [int(one[0]) for one in small] == list(range(len(small)))
    assert not memory.damages()
    store(large, large.numel())
    assert told(memory, large) == [(AddressSpace.OUTSIDE_STORAGE, 1, large.numel())]


def test_a_tensor_that_a_library_keeps_outlives_its_case(memory: GuardedMemory) -> None:
    kept = memory.lend(torch.arange(1000))
    memory.forget()
    others = [memory.lend(torch.zeros(1000, dtype=torch.int64)) for _ in range(50)]
    assert torch.equal(kept, torch.arange(1000))
    assert len(others) == 50


def test_what_torch_allocates_by_name_lies_between_bands_while_watched(installed: GuardedMemory) -> None:
    before = torch.empty(4)
    with installed.watching():
        fresh = torch.empty((2, 3), dtype=torch.bfloat16)
        zeros = torch.zeros(5, dtype=torch.int32)
        turned = torch.empty_strided((2, 3), (1, 2))
        ones = torch.ones(3, requires_grad=True)
    assert count_poison(fresh) == (6, (0, 0))
    assert count_poison(turned) == (6, (0, 0))
    assert zeros.tolist() == [0] * 5
    assert turned.stride() == (1, 2)
    assert ones.requires_grad
    assert not installed.damages()
    store(before, 4)
    assert not installed.damages()
    store(zeros, -2)
    assert told(installed, zeros) == [(AddressSpace.OUTSIDE_STORAGE, 1, -2)]


def test_what_torch_writes_where_it_was_told_to_stays_there(installed: GuardedMemory) -> None:
    with installed.watching():
        buffer = torch.ones(4)
        assert torch.zeros(4, out=buffer) is buffer
    assert buffer.tolist() == [0] * 4


def test_strides_of_sizes_of_one_are_kept_whatever_dlpack_makes_of_them(
    memory: GuardedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exchanged(capsule: object) -> torch.Tensor:
        """As torch before 2.10 does."""
        made: torch.Tensor = taken(capsule)
        steps = zip(made.shape, made.stride(), strict=True)
        return made.as_strided(made.shape, [1 if size == 1 else step for size, step in steps])

    taken = dlpack.from_dlpack
    monkeypatch.setattr(dlpack, "from_dlpack", exchanged)
    values = torch.arange(12.0).reshape(1, 3, 4)
    lent = memory.lend(values)
    assert (lent.stride(), lent.untyped_storage().nbytes()) == ((12, 4, 1), 48)
    assert torch.equal(lent, values)
