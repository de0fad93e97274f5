"""Exceptions that only say that something is not there, so that the case shows nothing about a kernel.

It may be a distribution that is not installed, a module that this release of the library lacks, or native code: of
torch for CUDA, of a C++ extension, of a shared library.  A library that breaks by itself is another matter.
"""

import os
import re
from collections.abc import Iterator
from types import TracebackType

from harness.engines.torch.cpu_tensors import EmulatedGpu
from harness.engines.torch.torch_seam import has_operators
from harness.errors import MissingPart
from harness.suite_files import MODULE_PREFIX

NAME = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
DUMMY = re.compile(r"Tried to instantiate dummy base class _?(\w+)")
"""Torch without CUDA, for classes that it has with CUDA alone."""
NO_FUNCTION = re.compile(r"module 'torch\._C' has no attribute '(_cuda\w*|_nccl\w*|_cudnn\w*)'")
NO_OPERATOR = re.compile(r"'_OpNamespace' '(\w+)' object has no attribute '(\w+)'")
NO_SHARED_LIBRARY = re.compile(r"(\S+\.so[.\d]*): cannot open shared object file|Could not load this library: (\S+)")
NO_CUDA = re.compile(r"without ATen_cuda library|Torch not compiled with CUDA enabled")
NO_XPU = re.compile(r"Torch not compiled with XPU enabled|compiled without XPU support")
NO_GPU = re.compile(r"no CUDA-capable device is detected|No CUDA GPUs are available|Found no NVIDIA driver")
"""Torch with CUDA, in a process that sees no GPU."""
COMPILED = re.compile(r"_C(_\w+)?|\w+_(cuda|ext|extension)")
"""Usual names of modules that are compiled from C++."""
EXTENSION_BUILDER = "/torch/utils/cpp_extension.py"


def missing_part(error: BaseException) -> str | None:
    """Return what is missing, as a clause such as `einops, which is not installed`; None if nothing is.

    A library that fails to import a module of its own is broken, so nothing is missing then.
    """
    answers = (answer for reason in (_module, _native_code) for cause in _causes(error) if (answer := reason(cause)))
    return next(answers, None)


def _module(error: BaseException) -> str | None:
    """Return the module whose import failed, unless the library itself ought to have it."""
    if isinstance(error, MissingPart):
        return str(error)
    if not isinstance(error, ImportError):
        return None
    importer = _importer(error)
    if importer == "jax_triton":  # its error has no module's name
        return "JAX with support for GPUs, which is not installed"
    if not error.name:
        return None
    if importer.startswith(MODULE_PREFIX):
        return f"{_full_name(error)}, which is not in this release or not installed"
    if isinstance(error, ModuleNotFoundError) and _root(error.name) != _root(importer):
        return f"{_root(error.name)}, which is not installed"
    return None


def _native_code(error: BaseException) -> str | None:
    """Return the native code that is missing.

    On a machine with the GPU and with every extension built, most of these exceptions do not occur.
    """
    text = str(error)
    match error:
        case RuntimeError() if dummy := DUMMY.search(text):
            return f"torch.cuda.{dummy[1]}, which needs torch with CUDA"
        case AttributeError() if function := NO_FUNCTION.fullmatch(text):
            return f"torch._C.{function[1]}, which needs torch with CUDA"
        case AttributeError() if (operator := NO_OPERATOR.match(text)) and not has_operators(operator[1]):
            return f"torch.ops.{operator[1]}.{operator[2]}: no extension that defines it is loaded"
        case OSError() | ImportError() if library := NO_SHARED_LIBRARY.search(text):
            return f"native code in {library[1] or library[2]}, which is not there"
        case RuntimeError() | AssertionError() | NotImplementedError() if NO_XPU.search(text):
            return f"native code of torch for Intel's GPUs ({text.splitlines()[0]})"
        case RuntimeError() | AssertionError() if EmulatedGpu.kind != "cuda":
            return None  # CUDA is missing beside an Intel GPU too
        case RuntimeError() | AssertionError() if NO_CUDA.search(text) or (_sees_no_gpu() and NO_GPU.search(text)):
            return f"native code of torch for CUDA ({text.splitlines()[0].partition('. ')[0]})"
        case ImportError() if error.name and COMPILED.fullmatch((name := _full_name(error)).rpartition(".")[2]):
            return f"compiled code in {name}, which is not built"
        case _ if any(trace.tb_frame.f_code.co_filename.endswith(EXTENSION_BUILDER) for trace in _frames(error)):
            return "a C++ extension, which cannot be built here"
        case _:
            return None


def _full_name(error: ImportError) -> str:
    """Return the module, or the name in it, that could not be imported."""
    imported = NAME.match(str(error))
    return f"{imported[2]}.{imported[1]}" if imported else error.name or ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception, its causes, and those that it replaces.

    An exception replaces another if the function that caught that raised it.  One that is raised further down, by what
    the function does instead, has another reason.
    """
    current: BaseException | None = error
    while current is not None:
        yield current
        if current.__cause__ is not None:
            current = current.__cause__
        elif current.__context__ is not None and _last_frame(current) is _first_frame(current.__context__):
            current = current.__context__
        else:
            current = None


def _importer(error: BaseException) -> str:
    """Return the name of the module whose import statement failed; empty if it is unknown."""
    named = (str(trace.tb_frame.f_globals.get("__name__", "")) for trace in _frames(error))
    own = [name for name in named if not name.startswith(("importlib", "_frozen_importlib", "harness."))]
    return own[-1] if own else ""


def _frames(error: BaseException) -> Iterator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _first_frame(error: BaseException) -> object:
    return None if error.__traceback__ is None else error.__traceback__.tb_frame


def _last_frame(error: BaseException) -> object:
    frames = tuple(_frames(error))
    return frames[-1].tb_frame if frames else None


def _root(module: str) -> str:
    return module.partition(".")[0]


def _sees_no_gpu() -> bool:
    """Return True in workers of the virtual GPU: they hide GPUs from torch."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") == ""
