"""A regression-test harness and fuzzer for GPU kernels written in Triton.

Importing this package loads neither torch nor Triton.  Suite files import `harness.suite`.  Test files may take the
same names, and `kernel_test`, from here: they are imported when they are used.

PYTEST_DONT_REWRITE: under `harness run` this package is imported before pytest, which would warn that it cannot rewrite
its asserts.  Such a warning ends a run with `filterwarnings = error`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.checks.checker import Checker, check
    from harness.kernel_tests import kernel_test
    from harness.suite import Dim, Draw, DType, groups, integers, op, segments, tensor, tokens, width
    from harness.watched.watched_block import run

__version__ = "0.1.0"
__all__ = [
    "Checker",
    "DType",
    "Dim",
    "Draw",
    "check",
    "groups",
    "integers",
    "kernel_test",
    "op",
    "run",
    "segments",
    "tensor",
    "tokens",
    "width",
]

_MODULES = {
    "Checker": "harness.checks.checker",
    "check": "harness.checks.checker",
    "kernel_test": "harness.kernel_tests",
    "run": "harness.watched.watched_block",
}
"""By name, the module that has it; other names are those of `harness.suite`."""

if not TYPE_CHECKING:  # a type checker would take any name for one of this function's

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES.get(name, "harness.suite")), name)
