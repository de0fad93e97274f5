"""Texts of compilers without what only names things: equal texts mean the same, whichever release printed them.

This file owns what counts as a name in TTIR and in PTX.  A text in another order of operations is another text.
"""

import re
from functools import lru_cache

_LOCATIONS = re.compile(r"\s*loc\((?:[^()\"]|\"[^\"]*\"|\((?:[^()]|\([^()]*\))*\))*\)|^#loc.*$", re.MULTILINE)
_NUMBERED = re.compile(r" loc\((?:#loc\d*|\"[^\"]*\"\(#loc\d*\)|callsite\(#loc\d* at #loc\d*\))\)")
_TABLE = re.compile(r"\n#loc[^\n]*")
"""Nearly all locations, and their table.  Both begin with a fixed text, which `re` finds fast."""
_CONSTANT = re.compile(r"^\s*(%[\w$.-]+) = arith\.constant (.*)$")
_VALUE = re.compile(r"%[\w$.-]+")
_TYPED_BLOCK = re.compile(r"tensordesc<tensor<([^<>]*)>>")

_COMMENT = re.compile(r"//.*$", re.MULTILINE)
_DEBUG_SECTION = re.compile(r"^\s*\.section\s+\.debug.*?^\s*\}", re.MULTILINE | re.DOTALL)
_NO_CODE = re.compile(
    r"^\s*(?:\.(?:version|target|address_size|file|loc|reg)\b.*|\$L__(?:tmp|func_begin|func_end)\w*:)$", re.MULTILINE
)
_REGISTER_OR_LABEL = re.compile(r"%(?:p|rs|r|rd|f|fd|rq)\d+\b|\$L__\w+")


@lru_cache(maxsize=1024)
def without_locations(ttir: str) -> str:
    rest = _TABLE.sub("\n", _NUMBERED.sub("", f"\n{ttir}"))[1:]
    return _LOCATIONS.sub("", rest) if "loc(" in rest else rest


def renamed_ttir(ttir: str) -> str:
    """Return TTIR without locations, its values numbered in the order of their use and its constants at their uses.

    Triton names values after Python variables, and each release prints others of them and orders constants its own way.
    A tensor descriptor's block has its type as Triton 3.9 prints it.
    """
    constants: dict[str, str] = {}
    names: dict[str, str] = {}

    def named(value: re.Match[str]) -> str:
        if value[0] in constants:
            return constants[value[0]]
        return names.setdefault(value[0], f"%{len(names)}")

    lines: list[str] = []
    for line in without_locations(ttir).splitlines():
        if constant := _CONSTANT.match(line):
            constants[constant[1]] = f"({constant[2].strip()})"
            names.pop(constant[1], None)  # a name is used again in another function
        elif line.strip():
            lines.append(_VALUE.sub(named, _TYPED_BLOCK.sub(r"tensordesc<\1>", line.rstrip())))
    return "\n".join(lines)


def renamed_assembly(assembly: str) -> str:
    """Return PTX without comments, lines of debuggers and versions, its registers and labels numbered by their use.

    AMD's assembly keeps its registers, which are the hardware's own.
    """
    text = _NO_CODE.sub("", _DEBUG_SECTION.sub("", _COMMENT.sub("", assembly)))
    names: dict[str, str] = {}

    def named(name: re.Match[str]) -> str:
        kind = name[0].rstrip("0123456789") if name[0].startswith("%") else "$L"
        return names.setdefault(name[0], f"{kind}{len(names)}")

    lines = (" ".join(line.split()) for line in text.splitlines())
    return _REGISTER_OR_LABEL.sub(named, "\n".join(line for line in lines if line))
