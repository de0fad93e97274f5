"""The memory of a launch: what its arguments hold, copied and put back, and how much a launch may take."""

import resource
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import psutil
import torch

from harness.engines.torch.torch_seam import plain_torch, without_dispatch_modes
from harness.engines.triton.driver import LaunchRequest, descriptor_tensor
from harness.workers.supervision.memory_limit import limit_growth

Copies = Mapping[int, torch.UntypedStorage]
"""Copies of storages, by the address of the original."""


def storages_of(request: LaunchRequest) -> dict[int, torch.UntypedStorage]:
    """Return the storages of the arguments by address, each once."""
    storages: dict[int, torch.UntypedStorage] = {}
    for value in request.arguments:
        memory: Any = descriptor_tensor(value) if hasattr(value, "block_shape") else value
        if hasattr(memory, "untyped_storage"):  # a tensor, or an object of a library's own class
            storage: torch.UntypedStorage = memory.untyped_storage()
            if storage.nbytes():
                storages[storage.data_ptr()] = storage
    return storages


def size_bytes(request: LaunchRequest) -> int:
    with plain_torch(), without_dispatch_modes():
        return sum(storage.nbytes() for storage in storages_of(request).values())


def copies_of(request: LaunchRequest) -> Copies:
    """Return copies of the arguments' memory."""
    with plain_torch(), without_dispatch_modes():
        return {address: storage.clone() for address, storage in storages_of(request).items()}


def host_copies(request: LaunchRequest) -> Copies:
    """Return copies of the arguments' memory on the host, which outlive a fault of the GPU."""
    with plain_torch(), without_dispatch_modes():
        return {address: storage.cpu() for address, storage in storages_of(request).items()}


def restore(request: LaunchRequest, copies: Copies) -> None:
    with plain_torch(), without_dispatch_modes():
        for address, storage in storages_of(request).items():
            storage.copy_(copies[address])


@contextmanager
def bounded_memory(share: float) -> Generator[None]:
    """Let this process allocate no more than a share of the machine's available memory while the context lasts.

    A launch that needs more raises, and the machine goes on.
    """
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit_growth(int(share * psutil.virtual_memory().available))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
