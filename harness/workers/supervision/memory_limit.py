"""The memory limit of a worker, and how to recognise that a case met it.

The limit is RLIMIT_DATA (private writable mappings), not RLIMIT_AS.  Reserved address space costs nothing and must not
count: CUDA reserves hundreds of gigabytes, and malloc its arenas.
"""

import errno
import resource
import signal

from harness.model.run import Crashed, Ending, OutOfMemory, Raised
from harness.workers.supervision import linux

MEMORY_ERRORS = ("MemoryError", "_ArrayMemoryError")
"""Python's, and NumPy's own subclass of it."""

TORCH_CPU_ALLOCATOR = "DefaultCPUAllocator: can't allocate memory"
"""torch raises a bare RuntimeError that only this text distinguishes (c10/core/impl/alloc_cpu.cpp)."""

ABORT_MESSAGES = ("std::bad_alloc", "LLVM ERROR: out of memory", "LLVM ERROR: Unable to allocate section memory")
"""Printed by native code that aborts because an allocation failed."""


def limit_growth(limit_bytes: int) -> int:
    """Let this process allocate this much more than it holds now.  Returns the bytes that it holds."""
    held = linux.data_bytes()
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (held + limit_bytes, most))
    return held


def lift_limit() -> None:
    """Make room to report that the limit was met."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def is_out_of_memory(error: BaseException) -> bool:
    """True if the exception reports a failed allocation."""
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or TORCH_CPU_ALLOCATOR in str(error)
    )


def reclassified(ending: Ending, limit_bytes: int) -> Ending:
    """The ending, but `OutOfMemory` for a failed allocation that was raised or that aborted the process."""
    match ending:
        case Raised(kind=kind, message=message) if kind in MEMORY_ERRORS or TORCH_CPU_ALLOCATOR in message:
            return OutOfMemory(limit_bytes=limit_bytes, message=message)
        case Crashed(signal=signal.Signals.SIGABRT.name, log_tail=tail) if any(text in tail for text in ABORT_MESSAGES):
            return OutOfMemory(limit_bytes=limit_bytes, message=tail)
        case _:
            return ending
