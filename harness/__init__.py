"""A regression-test harness and fuzzer for GPU kernels written in Triton.

Importing this package loads neither torch nor Triton.  Suite files import `harness.suite`.  Test files may take the
same names, and `kernel_test`, from here: they are imported when they are used.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_SUITE = ("DType", "Dim", "Draw", "groups", "integers", "op", "segments", "tensor", "tokens", "width")
_CHECKS = ("Checker", "check")
_PLACES = {
    "kernel_test": "harness.kernel_tests",
    "run": "harness.watched.watched_block",
    **dict.fromkeys(_CHECKS, "harness.checks.checker"),
    **dict.fromkeys(_SUITE, "harness.suite"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
