"""Redzones around tensors and gaps in them, in CPU memory: the same code that guards GPU memory."""

import ctypes
import re

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import dlpack

from harness.engines.cuda.memory.redzones import ARENA_BYTES, MOST_CAPTURED_BYTES, REDZONE_BYTES, Damage, RedzoneMemory
from harness.execution.layouts import lay_out
from harness.execution.poison import count_poison
from harness.model.case import Layout
from harness.model.run import AddressSpace

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)
FACTORIES = re.compile("(new_)?(empty|zeros|ones|full)")


@pytest.fixture
def memory() -> RedzoneMemory:
    return RedzoneMemory("cpu")


@pytest.fixture
def installed(memory: RedzoneMemory, monkeypatch: pytest.MonkeyPatch) -> RedzoneMemory:
    for owner in (torch, torch.Tensor):
        for name in [
            name for name in dir(owner) if name.removeprefix("new_").startswith(("empty", "zeros", "ones", "full"))
        ]:
            monkeypatch.setattr(owner, name, getattr(owner, name))  # so that the replacement ends with the test
    memory.install()
    return memory


def test_memory_of_a_capture_lies_between_redzones_once_it_ends(installed: RedzoneMemory) -> None:
    before = torch.arange(4)
    with installed.guarding():
        eager = torch.zeros(4)
        installed.begin_capture()
        fresh, filled = torch.empty(5), torch.full((5,), 2.0)
        kept = installed.end_capture()
        after = torch.zeros(4)
    assert count_poison(fresh)[0] == 5
    assert installed.damages() == ()
    store(fresh, 5)
    assert damage_of(installed, fresh) == [(AddressSpace.OUTSIDE_STORAGE, 1, 5)]
    assert (len(before), eager.tolist(), after.tolist()) == (4, [0.0] * 4, [0.0] * 4)
    assert (len(filled), kept is None) == (5, False)


def test_a_capture_guards_no_more_than_its_limit(installed: RedzoneMemory) -> None:
    with installed.guarding():
        installed.begin_capture()
        torch.empty(MOST_CAPTURED_BYTES)
        count = installed.count
        torch.empty(4)
        installed.end_capture()
    assert (count, installed.count) == (0, 1)


def store(tensor: torch.Tensor, element: int, value: int = 0) -> None:
    """Overwrite one element, counted from the tensor's first; it may lie outside of the tensor."""
    size = tensor.element_size()
    ctypes.memset(tensor.data_ptr() + element * size, value, size)


def damage_of(memory: RedzoneMemory, tensor: torch.Tensor) -> list[tuple[AddressSpace, int, int]]:
    damages: tuple[Damage, ...] = memory.damages()
    assert {damage.address for damage in damages} <= {tensor.untyped_storage().data_ptr()}
    return [(damage.region, damage.cells, damage.element) for damage in damages]


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_copy_on_the_gpu_has_the_same_values_and_layout(
    memory: RedzoneMemory, dtype: torch.dtype, layout: Layout
) -> None:
    values = torch.arange(1, 7).reshape(2, 3).to(dtype)
    if dtype.is_floating_point:
        values = lay_out(values, layout)
    copy = memory.to_gpu(values)
    assert (copy.dtype, copy.shape, copy.stride()) == (dtype, values.shape, values.stride())
    assert copy.storage_offset() == values.storage_offset()
    assert torch.equal(copy, values)
    assert not memory.damages()


def test_each_tensor_has_its_own_storage_and_leaves_stay_leaves(memory: RedzoneMemory) -> None:
    first, second = memory.to_gpu(torch.ones(4, requires_grad=True)), memory.to_gpu(torch.ones(4))
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in (first, second)}
    assert list(storages.values()) == [16, 16]
    assert first.requires_grad
    assert first.is_leaf
    assert not second.requires_grad
    with torch.no_grad():
        first.zero_()
    assert second.tolist() == [1.0] * 4


def test_a_tensor_without_elements_gets_no_redzones(memory: RedzoneMemory) -> None:
    copy = memory.to_gpu(torch.zeros(3, 0, requires_grad=True))
    assert copy.shape == (3, 0)
    assert copy.requires_grad
    assert not memory.damages()


@pytest.mark.parametrize("element", [-1, 5, 100])
def test_a_store_into_a_redzone_belongs_to_the_adjacent_tensor(memory: RedzoneMemory, element: int) -> None:
    memory.to_gpu(torch.ones(7))
    copy = memory.to_gpu(torch.ones(5))
    memory.to_gpu(torch.ones(7))
    store(copy, element)
    assert damage_of(memory, copy) == [(AddressSpace.OUTSIDE_STORAGE, 1, element)]


def test_a_store_directly_behind_an_odd_sized_tensor_is_found(memory: RedzoneMemory) -> None:
    copy = memory.to_gpu(torch.ones(7, dtype=torch.uint8))
    store(copy, 7)
    assert damage_of(memory, copy) == [(AddressSpace.OUTSIDE_STORAGE, 1, 7)]


def test_a_store_between_rows_of_a_strided_tensor_hits_a_gap(memory: RedzoneMemory) -> None:
    memory.to_gpu(lay_out(torch.ones(2, 3), Layout.STRIDED))
    copy = memory.to_gpu(lay_out(torch.ones(2, 3), Layout.STRIDED))
    store(copy, 4)
    assert damage_of(memory, copy) == [(AddressSpace.IN_GAP, 1, 4)]


def test_tensors_larger_than_an_arena_have_redzones(memory: RedzoneMemory) -> None:
    large = memory.to_gpu(torch.ones(ARENA_BYTES // 4 + 3))
    small = [memory.to_gpu(torch.full((3,), float(number))) for number in range(2 * ARENA_BYTES // REDZONE_BYTES)]
    assert [int(tensor[0]) for tensor in small] == list(range(len(small)))
    assert not memory.damages()
    store(large, large.numel())
    assert damage_of(memory, large) == [(AddressSpace.OUTSIDE_STORAGE, 1, large.numel())]


def test_a_tensor_that_a_library_keeps_outlives_its_case(memory: RedzoneMemory) -> None:
    kept = memory.to_gpu(torch.arange(1000))
    memory.forget()
    others = [memory.to_gpu(torch.zeros(1000, dtype=torch.int64)) for _ in range(50)]
    assert torch.equal(kept, torch.arange(1000))
    assert len(others) == 50


def test_tensors_of_torchs_factories_have_redzones_while_guarding(installed: RedzoneMemory) -> None:
    before = torch.empty(4)
    with installed.guarding():
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
    assert damage_of(installed, zeros) == [(AddressSpace.OUTSIDE_STORAGE, 1, -2)]


def test_a_result_written_to_out_stays_in_place(installed: RedzoneMemory) -> None:
    with installed.guarding():
        buffer = torch.ones(4)
        assert torch.zeros(4, out=buffer) is buffer
    assert buffer.tolist() == [0] * 4


def test_strides_of_dims_of_size_one_survive_dlpack(memory: RedzoneMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    def exchanged(capsule: object) -> torch.Tensor:
        """Exchange like torch before 2.10."""
        made: torch.Tensor = taken(capsule)
        steps = zip(made.shape, made.stride(), strict=True)
        return made.as_strided(made.shape, [1 if size == 1 else step for size, step in steps])

    taken = dlpack.from_dlpack
    monkeypatch.setattr(dlpack, "from_dlpack", exchanged)
    values = torch.arange(12.0).reshape(1, 3, 4)
    copy = memory.to_gpu(values)
    assert (copy.stride(), copy.untyped_storage().nbytes()) == ((12, 4, 1), 48)
    assert torch.equal(copy, values)


def test_a_default_device_reaches_the_replaced_factories(installed: RedzoneMemory) -> None:
    del installed
    with torch.device("meta"):
        assert torch.empty(3).device.type == "meta"


def test_forgotten_tensors_keep_their_values_and_are_not_followed(installed: RedzoneMemory) -> None:
    with installed.guarding():
        first, second = torch.ones(5), torch.ones(7)
        installed.forget_first(1)
        store(first, 5)
        assert not installed.damages()
        store(second, 7)
        assert damage_of(installed, second) == [(AddressSpace.OUTSIDE_STORAGE, 1, 7)]
    assert torch.equal(first, torch.ones(5))


def test_tensors_of_compilers_have_no_redzones(installed: RedzoneMemory) -> None:
    with FakeTensorMode(), installed.guarding():
        assert torch.empty(3).shape == (3,)
    assert installed.count == 0
