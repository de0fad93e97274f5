"""Makes JAX importable in a process that emulates a GPU, whoever imports it first and when.

jax-triton refuses to be imported without a GPU.  This file imports neither JAX nor torch nor Triton by itself.
"""

import importlib
import importlib.metadata
import os
import sys
from types import ModuleType

from harness.devices.import_hooks import Execute, on_import
from harness.errors import MissingPart
from harness.extras import PINNED, install_command

LIBRARY = "jax_triton.triton_lib"
"""The module of jax-triton that compiles and lowers kernel calls."""
_REPLACED = "jaxlib.gpu_triton"
_STAND_IN = "harness.jax_calls.gpu_triton"
_SEAM = "harness.jax_calls.jax_seam"


def missing_release() -> str:
    """Return the error for a JAX that is missing or of another release; empty if all is as it should be."""
    wrong = list[str]()
    for name, known in PINNED["jax"].items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{name} is not installed")
            continue
        if found != known:
            wrong.append(f"{name} {found} is installed")
    if not wrong:
        return ""
    releases = " and ".join(f"{name} {known}" for name, known in PINNED["jax"].items())
    return f"JAX on the virtual GPU works with {releases}, but {', '.join(wrong)}: {install_command('jax')}"


def check_releases() -> None:
    """Check that the installed releases are the known ones.

    Raises:
        MissingPart: one is missing or another.
    """
    if problem := missing_release():
        raise MissingPart(problem)


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
