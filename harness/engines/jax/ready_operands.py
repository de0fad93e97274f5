"""Reads from a compiled executable which operands of its calls hold their values before it runs.

jaxlib's FFI target tunes kernels while the executable initialises.  By then the executable's own parameters and its
constants are in memory.  The results of its operations are not.
"""

import re
from collections.abc import Mapping

Ready = tuple[bool, ...]
"""For each operand of a call, True if it is in memory before the executable runs."""

_COMPUTATION = re.compile(r"^(ENTRY )?%?[\w.-]+ \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = .*? ([a-z][\w-]*)\((.*)$")
_NAME = re.compile(r"%([\w.-]+)")
_NUMBER = re.compile(r"backend_config=\{call = (\d+)")
_SAME_MEMORY = frozenset({"bitcast", "reshape", "get-tuple-element"})
"""Operations whose result is their operand's memory."""


def ready_operands(executable: str, target: str) -> Mapping[int, Ready]:
    """Return the operands of each call of `target`, by the call's number, from the text of an optimised executable.

    Calls with one number are the same for the runtime, and the first of them is tuned.
    """
    calls: dict[int, Ready] = {}
    is_entry, ready = False, dict[str, bool]()
    for line in executable.splitlines():
        if computation := _COMPUTATION.match(line):
            is_entry, ready = bool(computation[1]), {}
        if not (instruction := _INSTRUCTION.match(line)):
            continue
        name, operation, rest = instruction.groups()
        operands = _NAME.findall(rest.partition(")")[0])
        match operation:
            case "parameter":
                ready[name] = is_entry  # that of a loop's body is what the loop produced
            case "constant":
                ready[name] = True
            case "custom-call" if f'custom_call_target="{target}"' in rest and (number := _NUMBER.search(rest)):
                calls.setdefault(int(number[1]), tuple(ready.get(operand, False) for operand in operands))
            case _ if operation in _SAME_MEMORY:
                ready[name] = all(ready.get(operand, False) for operand in operands)
            case _:
                pass
    return calls
