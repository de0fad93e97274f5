"""The memory limit of a worker, and how to tell that a case ran into it.

The limit is RLIMIT_DATA (private writable mappings), not RLIMIT_AS: address space that is only reserved, as CUDA
reserves hundreds of gigabytes and malloc its arenas, costs nothing and must not count.
"""

import errno
import resource
import signal

from harness.model.run import Crashed, Ending, OutOfMemory, Raised
from harness.workers.supervision import linux

MEMORY_ERRORS = ("MemoryError", "_ArrayMemoryError")
"""Python's, and NumPy's own subclass of it."""

TORCH_CPU_ALLOCATOR = "DefaultCPUAllocator: can't allocate memory"
"""torch raises a bare RuntimeError, told from others by this text alone (c10/core/impl/alloc_cpu.cpp)."""

LAST_WORDS = ("std::bad_alloc", "LLVM ERROR: out of memory")
"""What native code prints when it aborts because an allocation failed."""


def limit_growth(limit_bytes: int) -> int:
    """Let this process allocate so much more than it holds now; what it holds now is returned, in bytes."""
    held = linux.data_bytes()
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (held + limit_bytes, most))
    return held


def lift_limit() -> None:
    """Give room to report that the limit was met."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the exception says that an allocation failed."""
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or TORCH_CPU_ALLOCATOR in str(error)
    )


def reclassified(ending: Ending, limit_bytes: int) -> Ending:
    """The ending, except that a failed allocation is `OutOfMemory` however it came to light."""
    match ending:
        case Raised(kind=kind, message=message) if kind in MEMORY_ERRORS or TORCH_CPU_ALLOCATOR in message:
            return OutOfMemory(limit_bytes=limit_bytes, message=message)
        case Crashed(signal=signal.Signals.SIGABRT.name, log_tail=tail) if any(words in tail for words in LAST_WORDS):
            return OutOfMemory(limit_bytes=limit_bytes, message=tail)
        case _:
            return ending
