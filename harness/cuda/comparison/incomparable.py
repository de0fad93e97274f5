"""Which launches two GPUs may leave differently though none of them is wrong, so that comparing them tells nothing."""

import re
from functools import lru_cache

from harness.errors import CannotExecute
from harness.virtual.ttir.ir import Function
from harness.virtual.ttir.parser import parse

REGISTERS = re.compile(r"%(?:n?smid|clock|globaltimer)")
ATOMICS = frozenset({"tt.atomic_rmw", "tt.atomic_cas"})
LOOSE = re.compile(r"__nv_(?:fast_\w+|[jy][01n]f?)\b")
"""Functions of libdevice whose accuracy the CUDA Math API states for some arguments, or absolutely."""
EIGHT_BITS_ALIKE = 90
"""The architecture from which on 8-bit floats are converted in the same steps."""


def reason(ttir: str, worn: int, real: int) -> str:
    """Why launches of a kernel cannot be compared; empty where they can.

    Args:
        ttir: the kernel, as the virtual GPU executes it.
        worn: the architecture for which that was compiled: 80, 90, 120.
        real: that of the GPU at hand.
    """
    if "f8E" in ttir and min(worn, real) < EIGHT_BITS_ALIKE <= max(worn, real):
        return f"8-bit floats are converted in other steps before sm_{EIGHT_BITS_ALIKE}"
    return _of_kernel(ttir)


@lru_cache(maxsize=256)
def _of_kernel(ttir: str) -> str:
    if REGISTERS.search(ttir):
        return "it reads a register that says where or when it runs"
    if "tt.int_to_ptr" in ttir:
        return "it follows addresses that stand in memory"
    if "tt.cat" in ttir:
        return "tl.cat may put elements in any order"
    if loose := LOOSE.search(ttir):
        return f"CUDA does not state the accuracy of {loose[0]} for all arguments"
    try:
        functions = parse(ttir).functions.values()
    except CannotExecute:  # the virtual GPU says so itself
        return ""
    if any(map(_uses_what_atomics_give_back, functions)):
        return "what its atomics give back depends on the order of programs and lanes"
    return ""


def _uses_what_atomics_give_back(function: Function) -> bool:
    operations = list(function.body.all_operations())
    used = {slot for operation in operations for slot in operation.operands}
    return any(operation.name in ATOMICS and not used.isdisjoint(operation.results) for operation in operations)
