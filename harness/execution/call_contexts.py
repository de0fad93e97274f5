"""The threads and contexts in which a program may call a library.

A context variable, such as Triton's allocator, has its value in the context in which it was set.  A thread begins with
an empty context, a copied context has what the caller's has, and a forked child has what its parent has.  On a GPU,
autograd runs backward passes in a thread of its own.  So they run in a separate thread here too, although torch runs
those of CPU tensors in the calling thread.

Values that a call sets in the main thread stay, as in a program.  Values that it sets elsewhere are dropped.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import TypeVar

import torch
import triton

from harness.engines.torch.cpu_tensors import EmulatedGpu
from harness.model.case import CallContext

T = TypeVar("T")
ALIGNED_BYTES = 512
"""The alignment of torch's allocator on CUDA."""


class CallContexts:
    """Calls functions in the main thread and in others."""

    def __init__(self, on_new_thread: Callable[[], object] = lambda: None) -> None:
        """`on_new_thread` is called once in each thread, before anything else."""
        self._on_new_thread = on_new_thread
        self._start_backward_thread()
        os.register_at_fork(after_in_child=self._start_backward_thread)  # a thread does not survive a fork

    def call(self, where: CallContext, work: Callable[[], T]) -> T:
        """Return the result of `work`, called in such a context.

        Whoever starts the process makes it a forked or spawned child; the call is then in the child's main thread.
        """
        match where:
            case CallContext.MAIN | CallContext.FORKED | CallContext.SPAWNED:
                return work()
            case CallContext.THREAD:
                return self._in_new_thread(Context(), work)
            case CallContext.COPIED:
                return self._in_new_thread(copy_context(), work)
            case CallContext.BACKWARD:
                return self.in_backward_thread(work)
            case CallContext.OTHER_ALLOCATOR:
                return copy_context().run(with_other_allocator, work)

    def in_backward_thread(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, called in autograd's thread."""
        return self._backward_thread.submit(Context().run, work).result()

    def _in_new_thread(self, context: Context, work: Callable[[], T]) -> T:
        with ThreadPoolExecutor(1, "caller", self._on_new_thread) as thread:
            return thread.submit(context.run, work).result()

    def _start_backward_thread(self) -> None:
        self._backward_thread = ThreadPoolExecutor(1, "autograd-device", self._on_new_thread)


def with_other_allocator(work: Callable[[], T]) -> T:
    """Return the result of `work`, called while Triton's allocator of scratch memory takes memory from torch."""
    triton.set_allocator(_other_allocator)
    return work()


def _other_allocator(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    """Return new memory, as an allocator of another library does that keeps Triton's contract."""
    del stream
    assert alignment <= ALIGNED_BYTES, f"an alignment of {alignment} bytes"
    return torch.empty(size, dtype=torch.int8, device=EmulatedGpu.kind)
