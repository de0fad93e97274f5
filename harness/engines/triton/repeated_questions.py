"""What Triton's front end asks Python at every node of a kernel, answered once.

For each call of a built-in it reads the function's signature, and for each node it saves and restores Python's filters
of warnings (Triton up to 3.8).  Both take a tenth of a compilation to TTIR, and the answers are the same.
"""

import importlib
import inspect
import warnings
from threading import local
from types import FunctionType, TracebackType
from typing import Any

from harness.engines.triton.triton_releases import TESTED
from harness.patches import PATCHES


class RememberedSignatures:
    """The module `inspect`, which reads the signature of each function once."""

    def __init__(self) -> None:
        self._signatures: dict[tuple[FunctionType, bool], inspect.Signature] = {}
        """By function, and whether it is bound to an object."""

    def __getattr__(self, name: str) -> Any:
        return getattr(inspect, name)

    def signature(self, function: Any, **options: Any) -> inspect.Signature:
        plain = getattr(function, "__func__", function)
        if options or not isinstance(plain, FunctionType):
            return inspect.signature(function, **options)
        key = plain, plain is function
        if key not in self._signatures:
            self._signatures[key] = inspect.signature(function)
        return self._signatures[key]


class _Blocks(local):
    """The blocks of one thread."""

    count = 0
    """How many are inside each other."""
    outermost = warnings.catch_warnings()


class OutermostFilters:
    """The module `warnings`, of which nested blocks share the filters of the outermost one.

    All blocks set the same filters, as those of a visitor of a tree.
    """

    def __init__(self) -> None:
        self._blocks = _Blocks()

    def __getattr__(self, name: str) -> Any:
        return getattr(warnings, name)

    def catch_warnings(self) -> "OutermostFilters":
        return self

    def __enter__(self) -> None:
        self._blocks.count += 1
        if self._blocks.count == 1:
            self._blocks.outermost = warnings.catch_warnings()
            self._blocks.outermost.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._blocks.count -= 1
        if not self._blocks.count:
            self._blocks.outermost.__exit__(kind, error, at)

    def simplefilter(self, *arguments: Any) -> None:
        if self._blocks.count <= 1:
            warnings.simplefilter(*arguments)


def answer_once() -> None:
    """Let the front end ask once, in this process."""
    front_end: Any = importlib.import_module("triton.compiler.code_generator")
    if isinstance(front_end.inspect, RememberedSignatures):
        return
    why = "read the signature of a built-in once, not for each call of it in a kernel"
    PATCHES.replace(front_end, "inspect", RememberedSignatures(), why=why, releases=TESTED)
    why = "set the filters of warnings once for a kernel, not for each of its nodes"
    PATCHES.replace(front_end, "warnings", OutermostFilters(), why=why, releases=TESTED)
