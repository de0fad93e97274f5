"""Makes JAX importable in a process that emulates a GPU, no matter which code imports it first.

jax-triton refuses to be imported without a GPU.  This file imports neither JAX nor torch nor Triton by itself.
"""

import importlib
import os
import sys
from types import ModuleType

from harness.engines.jax.jax_releases import LIBRARY, check_releases
from harness.engines.torch.import_hooks import Execute, on_import

_REPLACED = "jaxlib.gpu_triton"
_STAND_IN = "harness.engines.jax.gpu_triton"
_SEAM = "harness.engines.jax.jax_seam"


def prepare_imports() -> None:
    """Take the place of the module with which jaxlib looks for CUDA, and adapt jax-triton when it is imported."""
    sys.modules.setdefault(_REPLACED, importlib.import_module(_STAND_IN))
    on_import(LIBRARY, _load_adapted)


def _load_adapted(module: ModuleType, execute: Execute) -> None:
    """Load jax-triton's library, and adapt it."""
    check_releases()
    cache = os.environ.get("TRITON_CACHE_DIR")
    execute()
    # jax-triton 0.3.1 clears it, and Triton's own launches would leave TTIR in the user's cache.
    if cache is not None:
        os.environ["TRITON_CACHE_DIR"] = cache
    importlib.import_module(_SEAM).adapt(module)
