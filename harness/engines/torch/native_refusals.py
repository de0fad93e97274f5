"""Refusals by name of what the harness cannot follow in torch.

On hardware these are CUDA graphs, which launch kernels without Triton's driver; `captured_graphs` emulates those of the
virtual GPU.  There, a C++ extension gets tensors of the CPU that only Python takes for tensors of a GPU.
"""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import NoReturn

import torch

from harness.engines.torch.import_hooks import change_when_imported
from harness.engines.torch.torch_seam import RUN
from harness.errors import CannotExecute
from harness.patches import PATCHES

EXTENSIONS = "torch.utils.cpp_extension"


def refuse_cuda_graphs() -> None:
    """Make the creation of a CUDA graph or of its memory pool raise, until `PATCHES` are undone."""
    # A class: libraries subclass it, and ask `isinstance`.
    _refuse(torch.cuda.CUDAGraph, {"__new__": "CUDA graphs (torch.cuda.CUDAGraph)"})
    for module in (torch.cuda, torch.cuda.graphs):
        _refuse(module, {"graph_pool_handle": "CUDA graphs (torch.cuda.graph_pool_handle)"})


def refuse_xpu_graphs() -> None:
    """Make the creation of a graph of an Intel GPU raise, if this release of torch has them."""
    if hasattr(torch.xpu, "XPUGraph"):
        _refuse(torch.xpu.XPUGraph, {"__new__": "graphs of Intel's GPUs (torch.xpu.XPUGraph)"})


def refuse_cpp_extensions() -> None:
    """Make torch's builder of C++ extensions raise once it is imported.  Its import takes too long for every worker."""
    change_when_imported(EXTENSIONS, _refuse_building)


def _refuse_building(module: ModuleType) -> None:
    _refuse(module, {name: f"a C++ extension ({EXTENSIONS}.{name})" for name in ("load", "load_inline")})


def _refuse(owner: object, refused: Mapping[str, str]) -> None:
    for name, what in refused.items():
        PATCHES.replace(owner, name, refusing(what), why="the harness cannot follow it", releases=RUN)


def refusing(what: str) -> Callable[..., NoReturn]:
    """Return a function that raises `CannotExecute`."""

    def refuse(*args: object, **kwargs: object) -> NoReturn:
        del args, kwargs
        raise CannotExecute(what)

    return refuse
