"""Makes JAX importable in a process that emulates a GPU, whoever imports it first and when.

jax-triton refuses to be imported without a GPU.  This file imports neither JAX nor torch nor Triton by itself.
"""

import importlib
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

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
    if not any(isinstance(one, _LibraryFinder) for one in sys.meta_path):
        sys.meta_path.insert(0, _LibraryFinder())


class _LibraryFinder(MetaPathFinder):
    """Finds jax-triton's library, and adapts it when it is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != LIBRARY:
            return None
        check_releases()
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _AdaptingLoader(spec.loader)
        return spec


class _AdaptingLoader(Loader):
    def __init__(self, original: Loader) -> None:
        self._original = original

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._original.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        cache = os.environ.get("TRITON_CACHE_DIR")
        self._original.exec_module(module)
        # jax-triton 0.3.1 clears it, and Triton's own launches would leave TTIR in the user's cache.
        if cache is not None:
            os.environ["TRITON_CACHE_DIR"] = cache
        importlib.import_module(_SEAM).adapt(module)
