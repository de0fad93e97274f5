"""Refusals by name of what the harness cannot follow in torch: CUDA graphs, and C++ extensions on the virtual GPU.

A graph launches kernels without Triton's driver.  A C++ extension gets tensors of the CPU that only Python takes for
tensors of a GPU.
"""

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any, NoReturn

import torch

from harness.errors import CannotExecute

EXTENSIONS = "torch.utils.cpp_extension"


def refuse_cuda_graphs() -> None:
    """Make the creation of a CUDA graph or of its memory pool raise, in this process, for good."""
    graphs: Any = torch.cuda.CUDAGraph  # a class: libraries subclass it, and ask `isinstance`
    graphs.__new__ = _refusing("CUDA graphs (torch.cuda.CUDAGraph)")
    for module in (torch.cuda, torch.cuda.graphs):
        setattr(module, "graph_pool_handle", _refusing("CUDA graphs (torch.cuda.graph_pool_handle)"))  # noqa: B010 - of two modules


def refuse_cpp_extensions() -> None:
    """Make torch's builder of C++ extensions raise once it is imported.  Its import takes too long for every worker."""
    if (module := sys.modules.get(EXTENSIONS)) is not None:
        _refuse_building(module)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the builder where Python finds it, and changes it when it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del target
        if fullname != EXTENSIONS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _RefusingLoader(spec.loader)
        return spec


class _RefusingLoader(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _refuse_building(module)


def _refuse_building(module: ModuleType) -> None:
    for name in ("load", "load_inline"):
        setattr(module, name, _refusing(f"a C++ extension ({EXTENSIONS}.{name})"))


def _refusing(what: str) -> Callable[..., NoReturn]:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        del args, kwargs
        raise CannotExecute(what)

    return refuse
