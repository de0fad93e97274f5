"""Deferred builds: while a case's host code runs, kernels that nobody has compiled are noted, and not launched.

Triton has a mode in which calls of kernels hand over how they are compiled.  A call that gets no kernel from it
launches nothing.
"""

import hashlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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
    """Triton's own name of the build in its cache."""
    compile_it: Callable[[], Any]
    """Compiles it into Triton's cache, and returns the kernel."""

    def is_kept(self) -> bool:
        """Return True if Triton's cache has it."""
        return get_cache_manager(self.digest).get_group(f"{self.kernel[:LONGEST_NAME]}.json") is not None


class BuildCollector:
    """Notes the kernels that are called and not compiled, while `collecting`."""

    def __init__(self) -> None:
        self._kernel = ""
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

    def submit(
        self, key: str, compile_it: Callable[[], Any], finalize: Callable[[Any], None], *_: Callable[[Any], None]
    ) -> Any:
        """Return the kernel if it is compiled; otherwise note it and return None.  Triton calls this."""
        assert self._builds is not None
        digest = hashlib.sha256(key.encode()).hexdigest()
        build = DeferredBuild(kernel=self._kernel, digest=digest, compile_it=compile_it)
        if not build.is_kept():
            self._builds.setdefault(digest, build)
            return None
        finalize(kernel := compile_it())
        return kernel

    def _defer(self, kernel: Any, compile_kernel: Callable[[], Any], *_: Any) -> Any:
        if self._builds is None:
            return compile_kernel()
        self._kernel = kernel.fn.__name__
        mode: Any = _async_compile.active_mode
        token = mode.set(self)
        try:
            return compile_kernel()
        finally:
            mode.reset(token)
