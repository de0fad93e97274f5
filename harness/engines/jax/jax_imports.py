"""Makes JAX importable in a process that emulates a GPU, no matter which code imports it first.

jax-triton refuses to be imported without a GPU.  This file imports neither JAX nor torch nor Triton by itself.
"""

import importlib
import os
import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

from harness.engines.jax.jax_releases import LIBRARY, check_releases
from harness.engines.torch.import_hooks import Execute, ImportRule, add_rule, on_import

_REPLACED = "jaxlib.gpu_triton"
_STAND_IN = "harness.engines.jax.gpu_triton"
_SEAM = "harness.engines.jax.jax_seam"


def prepare_imports() -> None:
    """Take the place of the module with which jaxlib looks for CUDA, and adapt jax-triton when it is imported."""
    add_rule(ImportRule(owner="JAX on the virtual GPU", covers=_REPLACED.__eq__, find=_find_stand_in))
    on_import(LIBRARY, _load_adapted)


def _find_stand_in(name: str, installed: ModuleSpec | None) -> ModuleSpec:
    del installed
    return ModuleSpec(name, _StandInLoader())


class _StandInLoader(Loader):
    """Loads the stand-in only when something imports JAX: it needs torch and Triton."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(_STAND_IN)  # what the import then returns


def _load_adapted(module: ModuleType, execute: Execute) -> None:
    """Load jax-triton's library, and adapt it."""
    check_releases()
    cache = os.environ.get("TRITON_CACHE_DIR")
    execute()
    # jax-triton 0.3.1 clears it, and Triton's own launches would leave TTIR in the user's cache.
    if cache is not None:
        os.environ["TRITON_CACHE_DIR"] = cache
    importlib.import_module(_SEAM).adapt(module)
