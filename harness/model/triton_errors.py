"""How Triton refuses a kernel: the names of its exceptions, and its texts where it has no exception of its own.

The parent judges exceptions of workers and imports no Triton, so it has names and texts alone.  Each text stands here
once, with the releases that print it.
"""

import re

REFUSED_BUILDS = frozenset({"OutOfResources", "PTXASError", "CompileTimeAssertionFailure"})
"""The exceptions after which Triton's autotuner tries the next config (`Autotuner._bench`, 3.6 to 3.9)."""
PASSES_FAILED = "PassManager::run failed"
"""MLIR's C++ raises it as a plain RuntimeError (3.6 to 3.9)."""
CUDA_FUNCTION = "Implicit conversion of CUDA"
"""AMD's backend raises it as a plain RuntimeError for a function of `triton.language.extra.cuda` (3.6 to 3.9)."""
MLIR_REFUSALS = (PASSES_FAILED, "Parse MLIR file failed", "failed to translate module to LLVM IR", CUDA_FUNCTION)
"""The beginnings of all such messages (3.6 to 3.9)."""
NO_ALLOCATOR = "Kernel requires a runtime memory allocation, but no allocator was set"
"""`NullAllocator` raises it as a plain RuntimeError (3.6 to 3.9)."""
UNSUPPORTED_TYPE = re.compile(r"type \w+ not supported in this architecture")
"""The front end's words for an element type that the GPU lacks, such as fp8e4nv on sm_80 (3.6 to 3.9)."""
