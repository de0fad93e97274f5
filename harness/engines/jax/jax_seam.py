"""The seam to JAX: every private name of jax, jaxlib and jax-triton that the harness touches.

It works with the releases of the extra `jax` alone (`harness.extras.PINNED`), which
`tests/engines/jax/test_jax_seam.py` checks.  `harness.engines.jax.jax_imports` has the names of its modules.
"""

import functools
import importlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from harness.engines.jax.gpu_triton import AnyKernelCall, SerializedCall
from harness.engines.jax.jax_kernels import JaxKernelBuild
from harness.engines.jax.jax_releases import LIBRARY, check_releases
from harness.engines.jax.xla_ffi import Execute, handler
from harness.errors import CannotExecute
from harness.extras import PINNED
from harness.patches import PATCHES

TARGET = "kernel_harness_triton_call"
"""The name of the FFI target that executes kernels on the virtual GPU."""

RUN = f"jax-triton {PINNED['jax']['jax-triton']}"
Recorded = Callable[[AnyKernelCall], int]
"""Takes a call that is being lowered, and returns its number."""

_recorded: ContextVar[Recorded | None] = ContextVar("recorded", default=None)
_handlers: list[Any] = []
"""XLA's C functions, which live as long as the process."""


def adapt(library: Any) -> None:
    """Lower kernel calls for the CPU, compile kernels as far as TTIR, and lead calls to our FFI target."""
    generator = _CodeGenerator(library.code_gen)
    replace = functools.partial(PATCHES.replace, library, releases=RUN)
    replace("code_gen", generator, why="the source of a kernel is kept while it is compiled")
    compile_to_ttir = functools.partial(_compile_to_ttir, library, generator)
    replace("compile_ttir_inplace", compile_to_ttir, why="a kernel is compiled as far as TTIR")
    replace("jax", _JaxWithTarget(library.jax), why="kernel calls are lowered to our FFI target")
    replace("zlib", _Uncompressed, why="compressing would lose the call")
    library.mlir.register_lowering(
        library.triton_kernel_call_p,
        functools.partial(library.triton_kernel_call_lowering, library.get_cuda_backend),
        platform="cpu",
    )


class _CodeGenerator:
    """Triton's code generator; keeps the source of the kernel that is being compiled."""

    def __init__(self, original: Any) -> None:
        self._original = original
        self.source: Any = None

    def ast_to_ttir(self, function: Any, source: Any, **options: Any) -> Any:
        self.source = source
        return self._original.ast_to_ttir(function, source, **options)


def _compile_to_ttir(library: Any, generator: _CodeGenerator, *arguments: Any) -> Any:
    """Take the place of jax-triton's `compile_ttir_inplace`, which compiles to PTX."""
    module, backend, options, compute_capability, _ = arguments
    ttir = str(backend.make_ttir(module, {}, options, compute_capability))
    build = JaxKernelBuild(ttir, generator.source, options)
    return library.CompilationResult(binary=build, name=build.kernel, shared_mem_bytes=0, ttgir=None, llir=None)


class _Uncompressed:
    """The module `zlib` as jax-triton sees it: compressing would lose the call."""

    @staticmethod
    def compress(call: SerializedCall) -> AnyKernelCall:
        return call.call


class _JaxWithTarget:
    """The module `jax` as jax-triton sees it: kernel calls are lowered to our FFI target."""

    def __init__(self, jax: Any) -> None:
        self._jax = jax
        self.ffi = _FfiWithTarget(jax.ffi)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jax, name)


class _FfiWithTarget:
    def __init__(self, ffi: Any) -> None:
        self._ffi = ffi

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ffi, name)

    def ffi_lowering(
        self, target: str, *, api_version: int, backend_config: Any, operand_output_aliases: dict[int, int]
    ) -> Any:
        """Return the rule that lowers a kernel call.

        Raises:
            CannotExecute: JAX compiles the call outside of `harness.suite.jax_call`.
        """
        del target, api_version
        recorded = _recorded.get()
        if recorded is None:
            raise CannotExecute("a JAX kernel outside of harness.suite.jax_call")
        number = recorded(backend_config)
        rule = self._ffi.ffi_lowering(TARGET, operand_output_aliases=operand_output_aliases)

        def lowered(context: Any, *arguments: Any) -> Any:
            return rule(context, *arguments, call=np.uint64(number))

        return lowered


def load(execute: Execute) -> Any:
    """Import jax and jax-triton, lead their kernel calls to `execute`, and return the module `jax`.

    `jax_imports.prepare_imports` has been called.

    Raises:
        MissingPart: a release is missing or unknown.
    """
    check_releases()
    jax: Any = importlib.import_module("jax")
    importlib.import_module(LIBRARY)
    # The process emulates a GPU: XLA must not look for one.  XLA's threads would run launches later.
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_enable_async_dispatch", val=False)
    _handlers.append(handler(execute))
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(_handlers[-1]), platform="cpu", api_version=1)
    return jax


@contextmanager
def recording(recorded: Recorded) -> Generator[None]:
    """Pass the kernel calls that are lowered in this context to `recorded`, on this thread."""
    token = _recorded.set(recorded)
    try:
        yield
    finally:
        _recorded.reset(token)


def text_of(compiled: Any) -> str:
    """Return the optimised program of a compiled executable, as XLA prints it."""
    return compiled.as_text()


def address_of(array: Any) -> int:
    """Return the address of an array's buffer on the CPU."""
    return array.unsafe_buffer_pointer()
