"""Decides which launches two GPUs may compute differently although neither is wrong; these are not compared."""

import re
from functools import lru_cache

from harness.engines.ttir.ir import Function
from harness.engines.ttir.parser import parse
from harness.errors import CannotExecute

SPECIAL_REGISTERS = re.compile(r"%(?:n?smid|clock|globaltimer)")
ATOMICS = frozenset({"tt.atomic_rmw", "tt.atomic_cas"})
UNSPECIFIED_ACCURACY = re.compile(r"__nv_(?:fast_\w+|[jy][01n]f?)\b")
"""Functions of libdevice whose relative accuracy the CUDA Math API does not state for all arguments."""
FLOAT8_CONVERSION_CHANGED_IN = 90
"""The architecture in which the conversion of 8-bit floats got other intermediate steps."""


def reason(ttir: str, emulated: int, hardware: int) -> str:
    """Return why launches of a kernel cannot be compared; empty if they can.

    Args:
        ttir: the kernel, as the virtual GPU executes it.
        emulated: the architecture for which that was compiled: 80, 90, 120.
        hardware: the architecture of the hardware GPU.
    """
    if "f8E" in ttir and min(emulated, hardware) < FLOAT8_CONVERSION_CHANGED_IN <= max(emulated, hardware):
        return f"8-bit floats are converted in other steps before sm_{FLOAT8_CONVERSION_CHANGED_IN}"
    return _reason_in_kernel(ttir)


@lru_cache(maxsize=256)
def _reason_in_kernel(ttir: str) -> str:
    if SPECIAL_REGISTERS.search(ttir):
        return "it reads a register that depends on when or where it runs"
    if "tt.int_to_ptr" in ttir:
        return "it follows addresses that are stored in memory"
    if "tt.cat" in ttir:
        return "tl.cat may put elements in any order"
    if function := UNSPECIFIED_ACCURACY.search(ttir):
        return f"CUDA does not state the accuracy of {function[0]} for all arguments"
    try:
        functions = parse(ttir).functions.values()
    except CannotExecute:  # the virtual GPU reports this itself
        return ""
    if any(map(_uses_atomic_results, functions)):
        return "the results of its atomics depend on the order of programs and lanes"
    return ""


def _uses_atomic_results(function: Function) -> bool:
    operations = list(function.body.all_operations())
    used = {slot for operation in operations for slot in operation.operands}
    return any(operation.name in ATOMICS and not used.isdisjoint(operation.results) for operation in operations)
