"""Deferred builds: while a case's host code runs, kernels that nobody has compiled are noted, and not launched.

Triton has a mode in which calls of kernels hand over how they are compiled.  A call that gets no kernel from it
launches nothing.
"""

import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from triton import knobs
from triton.runtime import _async_compile
from triton.runtime.cache import get_cache_manager

from harness.engines.triton.compile_steps import CompileStep, compile_through

LONGEST_NAME = 150
"""Triton cuts the names of files after so many characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredBuild:
    """A kernel that is to be compiled."""

    kernel: str
    digest: str
    """It tells the build from all others in any cache."""
    compile_it: Callable[[], Any]
    """Compiles it into Triton's cache, unless it is there, and returns the kernel."""


class BuildCollector:
    """Notes the kernels that are called and not compiled, while `collecting`."""

    def __init__(self) -> None:
        self._kernel = ""
        self._compile_it: Callable[[], Any] = lambda: None
        """Compiles the kernel that is called, by all steps of the harness."""
        self._builds: dict[str, DeferredBuild] | None = None

    def install(self) -> None:
        """Have calls of kernels in this process ask the collector."""
        why = "note what is to be compiled, so that several kernels can be compiled at once"
        compile_through(CompileStep.DEFER, self._defer, why)

    @contextmanager
    def collecting(self) -> Generator[dict[str, DeferredBuild]]:
        """Yield the builds by digest; it fills while the context lasts."""
        self._builds = builds = {}
        try:
            yield builds
        finally:
            self._builds = None

    def submit(self, key: str, compile_it: Callable[[], Any], finalize: Callable[[Any], None], *_: object) -> Any:
        """Return the kernel if it is compiled; otherwise note it and return None.  Triton calls this."""
        assert self._builds is not None
        cached = get_cache_manager(hashlib.sha256(key.encode()).hexdigest())
        if cached.get_group(f"{self._kernel[:LONGEST_NAME]}.json") is None:
            digest = hashlib.sha256(f"{knobs.cache.dir} {key}".encode()).hexdigest()
            build = DeferredBuild(kernel=self._kernel, digest=digest, compile_it=self._compile_it)
            self._builds.setdefault(digest, build)
            return None
        finalize(kernel := compile_it())
        return kernel

    def _defer(
        self, kernel: Any, compile_kernel: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self._builds is None:
            return compile_kernel()
        self._kernel = kernel.fn.__name__
        self._compile_it = lambda: kernel._do_compile(*args, **kwargs)  # noqa: SLF001 - through every step again
        mode: Any = _async_compile.active_mode
        token = mode.set(self)
        try:
            return compile_kernel()
        finally:
            mode.reset(token)
