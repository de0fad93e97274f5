"""The arguments of a launch that its build was not compiled for.

Triton specialises a build by its arguments: pointers and integers that 16 divides, and integers that are 1 or pointers
that are None, which become constants.  `kernel[grid](...)` compiles anew for other arguments.  A launch of a compiled
kernel, as `warmup` returns, goes through that build whatever the arguments are.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from harness.engines.triton.driver import LaunchRequest, descriptor_tensor
from harness.engines.ttir.ir import Function
from harness.engines.ttir.wide_accesses import widened_by
from harness.model.run import AccessSite, ForeignArgument

DIVISOR = 16
_DIVISIBILITY = "tt.divisibility"


class ArgumentPromises:
    """What one build relies on, for a quick look at the arguments of each launch."""

    def __init__(self, source: Any) -> None:
        self._divisible = tuple(path[0] for path, attributes in source.attrs.items() if _is_divisible(path, attributes))
        self._constants = tuple(
            (path[0], value)
            for path, value in source.constants.items()
            if len(path) == 1 and not source.fn.params[path[0]].is_constexpr
        )

    def are_kept(self, arguments: Sequence[Any]) -> bool:
        """Return False if `foreign_arguments` may yield one of these arguments."""
        for at in self._divisible:
            if at < len(arguments) and _beyond(arguments[at]):
                return False
        return not any(at < len(arguments) and _differs(value, arguments[at]) for at, value in self._constants)


def foreign_arguments(request: LaunchRequest, kernel: Function, launch: int) -> Iterator[ForeignArgument]:
    """Yield the arguments that do not keep what the build relies on.

    What 16 does not divide counts only where the compiler makes an access wider for it.  Parts of tuples are not looked
    at, nor what the caller passes for a `tl.constexpr`, which no launch reads.
    """

    def event(at: int, promised: str, passed: str) -> ForeignArgument:
        name = request.source.fn.arg_names[at]
        site = AccessSite(kernel=request.source.fn.__name__, launch=launch, argument=name, source=None)
        return ForeignArgument(site=site, promised=promised, passed=passed)

    source, arguments = request.source, request.arguments
    for path, attributes in source.attrs.items():
        if _is_divisible(path, attributes) and path[0] < len(arguments):
            beyond = _beyond(arguments[path[0]])
            if beyond and _widens(request, kernel, path[0]):
                yield event(path[0], f"multiples of {DIVISOR}", beyond)
    for path, value in source.constants.items():
        if len(path) > 1 or path[0] >= len(arguments) or source.fn.params[path[0]].is_constexpr:
            continue
        if _differs(value, passed := arguments[path[0]]):
            yield event(path[0], str(value), "as a tensor" if value is None else f"= {passed}")


def _is_divisible(path: Sequence[int], attributes: Any) -> bool:
    return len(path) == 1 and any(name == _DIVISIBILITY for name, _ in attributes)


def _differs(value: Any, passed: Any) -> bool:
    """Return True if a launch passes something else in the place of a constant."""
    if value is None:
        return isinstance(passed, torch.Tensor)
    return isinstance(value, int) and isinstance(passed, int) and passed != value


def _widens(request: LaunchRequest, kernel: Function, at: int) -> bool:
    """Return True if an access is wider for an argument; False where it is not known which parameter that is."""
    kinds = list(request.source.signature.values())
    if any(not isinstance(kind, str) or kind.startswith("tensordesc") for kind in kinds):
        return False
    return widened_by(kernel, sum(kind != "constexpr" for kind in kinds[:at]))


def _beyond(argument: Any) -> str:
    """Return how far an argument is from a multiple of 16; empty if it is one, or if it is no number or pointer."""
    if isinstance(argument, int):
        return f"= {argument}" if argument % DIVISOR else ""
    if isinstance(argument, torch.Tensor):
        return _beyond_address(argument.data_ptr())
    if descriptor_tensor(argument) is not None or not callable(getattr(argument, "data_ptr", None)):
        return ""
    return _beyond_address(argument.data_ptr())


def _beyond_address(address: int) -> str:
    beyond = address % DIVISOR
    return f"at {beyond} bytes beyond a multiple of {DIVISOR}" if beyond else ""
