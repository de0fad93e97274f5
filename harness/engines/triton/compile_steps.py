"""The replacement of `JITFunction._do_compile`, and the steps around Triton's own method in one fixed order."""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from triton.runtime.jit import JITFunction

from harness.engines.triton.triton_releases import TESTED
from harness.patches import PATCHES


class CompileStep(IntEnum):
    """What happens around the compilation of a kernel, from the outermost step to the innermost."""

    COLLECT = 0
    """Record the build, and compile nothing."""
    ASSEMBLE = 1
    """Assemble it in another way than usual."""
    EXPLAIN = 2
    """Explain why the hardware refuses it."""
    NOTE = 3
    """Note it in the flight recorder."""
    DEFER = 4
    """Leave it for later."""


Around = Callable[[Any, Callable[[], Any], tuple[Any, ...], dict[str, Any]], Any]
"""Takes the `JITFunction`, what it wraps, and the arguments of `_do_compile`; returns the compiled kernel."""

_steps_of: dict[Any, tuple[Any, Mapping[CompileStep, Around]]] = {}
"""By replacement, Triton's own method and the steps around it."""


def compile_through(step: CompileStep, around: Around, why: str) -> None:
    """Compile all kernels of this process through a step, in its place in the order."""
    current: Any = JITFunction._do_compile  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - it has no public name
    original, before = _steps_of.get(current, (current, {}))
    steps = {**before, step: around}

    def compile_kernel(self: Any, *args: Any, **kwargs: Any) -> Any:
        def compile_from(ordered: list[CompileStep]) -> Any:
            if not ordered:
                return original(self, *args, **kwargs)
            first, *rest = ordered
            return steps[first](self, lambda: compile_from(rest), args, kwargs)

        return compile_from(sorted(steps))

    _steps_of[compile_kernel] = original, steps
    PATCHES.replace(JITFunction, "_do_compile", compile_kernel, why=why, releases=TESTED)
