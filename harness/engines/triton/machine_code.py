"""Facts that the assembler leaves: the messages of ptxas, the sections of a cubin, the metadata of AMD's assembly."""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.model.run import Source

INSTRUCTION_BYTES = 16
"""Length of a machine instruction since capability 7.0."""
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_CUMULATIVE = re.compile(r"(\d+) bytes cumulative stack size")
_WARNING = re.compile(
    r"^ptxas[\w-]* .*?(?:warning|error)\s*:\s*(.*)$|^(?:ptxas )?(warning\b.*)$", re.MULTILINE | re.IGNORECASE
)
_REFUSED_LINE = re.compile(r"^ptxas[\w-]* (\S+), line (\d+); error\s*:\s*(.*)$", re.MULTILINE)
_REFUSED = re.compile(r"^ptxas[\w-]* (?:fatal|error)\s*:\s*(.*)$", re.MULTILINE)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)", re.MULTILINE)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)
_AMD_FACT = re.compile(r"^\s*\.(\w+):\s*(\d+)\s*$", re.MULTILINE)
_AMD_INSTRUCTION = re.compile(r"^\s+(?:[sv]|ds|global|buffer|flat|scratch|tensor)_\w+", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblerFacts:
    """Registers and local memory of a kernel."""

    registers: int
    scalar_registers: int = 0
    local_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    warnings: tuple[str, ...] = ()


def ptxas_facts(log: str) -> AssemblerFacts:
    """Read what `ptxas -v` prints of one kernel.

    Raises:
        ValueError: it prints no registers.
    """
    used = _USED.search(log)
    if used is None:
        raise ValueError(f"ptxas reports no registers: {log.strip()[:200]!r}")
    frames = [tuple(map(int, sizes)) for sizes in _FRAME.findall(log)]
    cumulative = [int(size) for size in _CUMULATIVE.findall(log)]
    return AssemblerFacts(
        registers=int(used[1]),
        local_bytes=max((*cumulative, *(frame for frame, _, _ in frames)), default=0),
        spill_store_bytes=sum(stores for _, stores, _ in frames),
        spill_load_bytes=sum(loads for _, _, loads in frames),
        warnings=tuple(dict.fromkeys(prefixed or plain for prefixed, plain in _WARNING.findall(log))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxasRefusal:
    """The first error of ptxas."""

    message: str
    source: Source | None
    """The line of Python for which the instruction was made."""


def ptxas_refusal(text: str) -> PtxasRefusal | None:
    """Return the error in a text that quotes the messages of ptxas; None if there is none.

    The PTX file that they name is read, if it is still there.
    """
    if refused := _REFUSED_LINE.search(text):
        return PtxasRefusal(message=refused[3].strip(), source=_source_of(Path(refused[1]), int(refused[2])))
    refused = _REFUSED.search(text)
    return PtxasRefusal(message=refused[1].strip(), source=None) if refused else None


def _source_of(ptx: Path, number: int) -> Source | None:
    """Return the source that the last `.loc` before a line of PTX names."""
    if not ptx.is_file():
        return None
    text = ptx.read_text(encoding="utf-8", errors="replace")
    places = _LOC.findall("\n".join(text.splitlines()[:number]))
    files = dict(_FILE.findall(text))
    if not places or places[-1][0] not in files:
        return None
    return Source(file=files[places[-1][0]], line=int(places[-1][1]))


def amd_facts(assembly: str) -> AssemblerFacts:
    """Read the metadata of a kernel's AMD assembly.

    Raises:
        ValueError: it has none.
    """
    facts = {name: int(value) for name, value in _AMD_FACT.findall(assembly)}
    if "vgpr_count" not in facts:
        raise ValueError("the assembly has no metadata of its kernel")
    spills = 4 * facts.get("vgpr_spill_count", 0)
    return AssemblerFacts(
        registers=facts["vgpr_count"],
        scalar_registers=facts.get("sgpr_count", 0),
        local_bytes=facts.get("private_segment_fixed_size", 0),
        spill_store_bytes=spills,
        spill_load_bytes=spills,
    )


def amd_instructions(assembly: str) -> int:
    return len(_AMD_INSTRUCTION.findall(assembly))


def cubin_instructions(cubin: bytes) -> int:
    """Return the instructions in the code sections of a cubin, padding included."""
    return sum(size for name, size in _sections(cubin) if name.startswith(".text.")) // INSTRUCTION_BYTES


def _sections(elf: bytes) -> Iterator[tuple[str, int]]:
    """Yield name and size of each section of a 64-bit ELF file."""
    table, entry_bytes, count, names_index = struct.unpack_from("<Q10xHHH", elf, 40)
    entries = [struct.unpack_from("<I20xQQ", elf, table + number * entry_bytes) for number in range(count)]
    names_offset = entries[names_index][1]
    for name, _, size in entries:
        start = names_offset + name
        yield elf[start : elf.index(b"\0", start)].decode(), size
