"""Exceptions that only say that native code is missing: of torch for CUDA, of a C++ extension, of a shared library.

Such a case shows nothing about a kernel, unlike a library that breaks by itself.  On a machine with the GPU and with
every extension built, most of these exceptions do not occur.
"""

import os
import re
from collections.abc import Iterator

import torch

from harness.execution.missing_modules import causes

DUMMY = re.compile(r"Tried to instantiate dummy base class _?(\w+)")
"""Torch without CUDA, for classes that it has with CUDA alone."""
NO_FUNCTION = re.compile(r"module 'torch\._C' has no attribute '(_cuda\w*|_nccl\w*|_cudnn\w*)'")
NO_OPERATOR = re.compile(r"'_OpNamespace' '(\w+)' object has no attribute '(\w+)'")
NO_SHARED_LIBRARY = re.compile(r"(\S+\.so[.\d]*): cannot open shared object file|Could not load this library: (\S+)")
NO_CUDA = re.compile(r"without ATen_cuda library|Torch not compiled with CUDA enabled")
NO_GPU = re.compile(r"no CUDA-capable device is detected|No CUDA GPUs are available|Found no NVIDIA driver")
"""Torch with CUDA, in a process that sees no GPU."""
COMPILED = re.compile(r"_C(_\w+)?|\w+_(cuda|ext|extension)")
"""Usual names of modules that are compiled from C++."""
IMPORTED_NAME = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
EXTENSION_BUILDER = "/torch/utils/cpp_extension.py"


def native_code_missing(error: BaseException) -> str | None:
    """Return the missing native code as a noun with its name; None if the exception has another reason."""
    for one in causes(error):
        for found in (_of_message(one), _of_import(one), _of_builder(one)):
            if found is not None:
                return found
    return None


def _of_message(error: BaseException) -> str | None:
    text = str(error)
    match error:
        case RuntimeError() if found := DUMMY.search(text):
            return f"torch.cuda.{found[1]}, which needs torch with CUDA"
        case AttributeError() if found := NO_FUNCTION.fullmatch(text):
            return f"torch._C.{found[1]}, which needs torch with CUDA"
        case AttributeError() if (found := NO_OPERATOR.match(text)) and not _has_operators(found[1]):
            return f"torch.ops.{found[1]}.{found[2]}: no extension that defines it is loaded"
        case OSError() | ImportError() if found := NO_SHARED_LIBRARY.search(text):
            return f"native code in {found[1] or found[2]}, which is not there"
        case RuntimeError() | AssertionError() if NO_CUDA.search(text) or (_sees_no_gpu() and NO_GPU.search(text)):
            return f"native code of torch for CUDA ({text.splitlines()[0].partition('. ')[0]})"
        case _:
            return None


def _of_import(error: BaseException) -> str | None:
    """Return the compiled module whose import failed."""
    if not isinstance(error, ImportError) or not error.name:
        return None
    imported = IMPORTED_NAME.match(str(error))
    name = f"{imported[2]}.{imported[1]}" if imported else error.name
    return f"compiled code in {name}, which is not built" if COMPILED.fullmatch(name.rpartition(".")[2]) else None


def _of_builder(error: BaseException) -> str | None:
    """Return the C++ extension if torch's builder of extensions raised."""
    return "a C++ extension, which cannot be built here" if EXTENSION_BUILDER in _files(error) else None


def _files(error: BaseException) -> Iterator[str]:
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        yield file[max(0, file.rfind("/torch/")) :]
        trace = trace.tb_next


def _has_operators(namespace: str) -> bool:
    names = torch._C._dispatch_get_all_op_names()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - no public name in torch 2.13
    return any(name.startswith(f"{namespace}::") for name in names)


def _sees_no_gpu() -> bool:
    """Return True in workers of the virtual GPU: they hide GPUs from torch."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") == ""
