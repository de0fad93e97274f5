"""The bytes behind the tensors of a launch: seen, written back, and read as a tensor of the same form."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import torch


def storage_views(tensors: Iterable[torch.Tensor]) -> Iterator[tuple[int, memoryview]]:
    """Yield the address and all bytes of the storage of each tensor."""
    for tensor in tensors:
        storage = tensor.untyped_storage()
        whole = torch.empty(0, dtype=torch.uint8).set_(storage)
        array = cast("Any", whole.numpy())  # NumPy 2.3 does not declare the buffer protocol
        yield storage.data_ptr(), memoryview(array)


def write_storages(storages: Mapping[int, memoryview], contents: Mapping[int, bytes]) -> None:
    for address, view in storages.items():
        view[:] = contents[address]


def like_tensor(tensor: torch.Tensor, content: bytearray) -> torch.Tensor:
    """Return a tensor with the same type, shape and strides over other bytes."""
    if not content:
        return tensor
    whole = torch.frombuffer(content, dtype=torch.uint8)
    typed = torch.empty(0, dtype=tensor.dtype).set_(whole.untyped_storage())
    return typed.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
