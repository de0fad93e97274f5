"""Refusals by name of what the harness cannot follow in torch.

On hardware these are CUDA graphs, which launch kernels without Triton's driver; `captured_graphs` emulates those of the
virtual GPU.  There, a C++ extension gets tensors of the CPU that only Python takes for tensors of a GPU.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import torch

from harness.engines.torch.import_hooks import change_when_imported
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
    change_when_imported(EXTENSIONS, _refuse_building)


def _refuse_building(module: ModuleType) -> None:
    for name in ("load", "load_inline"):
        setattr(module, name, _refusing(f"a C++ extension ({EXTENSIONS}.{name})"))


def _refusing(what: str) -> Callable[..., NoReturn]:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        del args, kwargs
        raise CannotExecute(what)

    return refuse
