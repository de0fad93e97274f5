"""The control flow of a kernel: its basic blocks, and a row of the register file for each register.

PTX names thousands of registers and holds few at a time.  Registers whose lives do not meet share a row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.engines.ptx.ptx_kernel import (
    Address,
    Immediate,
    Negated,
    Operand,
    Pair,
    PtxInstruction,
    PtxKernel,
    Register,
    RegisterVector,
    Symbol,
)

WITHOUT_RESULT = frozenset(
    [
        "st",
        "bar",
        "barrier",
        "bra",
        "brx",
        "ret",
        "exit",
        "cp",
        "fence",
        "membar",
        "prefetch",
        "prefetchu",
        "tensormap",
        "griddepcontrol",
        "setmaxnreg",
        "trap",
        "brkpt",
        "nanosleep",
        "stmatrix",
        "red",
        "discard",
        "applypriority",
        "pmevent",
        "call",
        "multimem",
        "cluster",
    ]
)
"""Roots of instructions that write no register."""
_BLOCKING_BARRIERS = frozenset({"sync", "red", "wait"})

_EXCHANGES = frozenset({"shfl", "vote", "match", "redux", "elect"})
"""Roots of instructions whose last operand is the mask of the threads that take part."""
_ALL_MEMBERS = 0xFFFFFFFF


def is_blocking(instruction: PtxInstruction) -> bool:
    """Return True for an instruction at which threads may have to wait for others."""
    words = instruction.words
    match words[0]:
        case "bar" | "barrier":
            return not _BLOCKING_BARRIERS.isdisjoint(words[1:3]) and "warp" not in words
        case "mbarrier":
            return "try_wait" in words
        case _:
            return False


def needs_whole_warp(instruction: PtxInstruction) -> bool:
    """Return True for an instruction that exchanges values among all 32 threads of a warp."""
    if instruction.root not in _EXCHANGES or "sync" not in instruction.words:
        return False
    members = instruction.operands[-1]
    return isinstance(members, Immediate) and members.value & _ALL_MEMBERS == _ALL_MEMBERS


def is_jump(instruction: PtxInstruction) -> bool:
    return instruction.root in {"bra", "ret", "exit", "trap"}


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Instructions from `first` to before `end`.  A blocking instruction is alone in its block."""

    first: int
    end: int


def blocks_of(kernel: PtxKernel) -> tuple[tuple[BasicBlock, ...], Mapping[int, int]]:
    """Return the blocks in the order of the text, and by index of a first instruction the number of its block."""
    starts = {0}
    for at, instruction in enumerate(kernel.instructions):
        if is_jump(instruction):
            starts.add(at + 1)
            starts.update(kernel.labels[part.name] for part in instruction.operands if isinstance(part, Symbol))
        elif is_blocking(instruction):
            starts |= {at, at + 1}
    ordered = sorted(start for start in starts if start < len(kernel.instructions))
    ends = [*ordered[1:], len(kernel.instructions)]
    blocks = tuple(BasicBlock(first, end) for first, end in zip(ordered, ends, strict=True))
    return blocks, {block.first: number for number, block in enumerate(blocks)}


def registers_in(operand: Operand | None) -> Iterator[Register]:
    """Yield the registers that an operand names."""
    match operand:
        case Register():
            yield operand
        case Negated():
            yield operand.register
        case RegisterVector():
            for part in operand.parts:
                yield from registers_in(part)
        case Pair():
            yield from registers_in(operand.first)
            yield from registers_in(operand.second)
        case Address():
            yield from registers_in(operand.base)
            for part in operand.coordinates:
                yield from registers_in(part)
        case _:
            return


def results_of(instruction: PtxInstruction) -> tuple[Register, ...]:
    """Return the registers that an instruction writes."""
    words = instruction.words
    if words[0] in WITHOUT_RESULT and words[:2] != ("bar", "red") and words[:2] != ("barrier", "red"):
        return ()
    if words[0] == "tcgen05" and words[1] != "ld":
        return ()
    if not instruction.operands or isinstance(instruction.operands[0], Address):
        return ()
    if words[:3] == ("tcgen05", "ld", "red"):
        return tuple(register for operand in instruction.operands[:2] for register in registers_in(operand))
    return tuple(registers_in(instruction.operands[0]))


def sources_of(instruction: PtxInstruction) -> tuple[Register, ...]:
    """Return the registers that an instruction reads; those that it writes only in part are among them."""
    results = results_of(instruction)
    operands = instruction.operands[1:] if results else instruction.operands
    read = [register for operand in operands for register in registers_in(operand)]
    if instruction.guard is not None:
        read += [*registers_in(instruction.guard), *results]
    if instruction.root == "wgmma":
        read += results
    return tuple(read)


@dataclass(frozen=True, slots=True)
class RegisterFile:
    """The row of each register, among the rows of its width, and how many rows each width has."""

    row: Mapping[Register, int]
    rows: Mapping[int, int]
    last: Mapping[Register, int]
    """The last instruction at which each register may be live."""


def register_file(kernel: PtxKernel) -> RegisterFile:
    """Assign rows to registers such that no two live ones share a row."""
    intervals = _intervals(kernel)
    row: dict[Register, int] = {}
    rows: dict[int, int] = {}
    free: dict[int, list[int]] = {}
    busy: list[tuple[int, Register]] = []
    for register, (first, last) in sorted(intervals.items(), key=lambda item: item[1]):
        still: list[tuple[int, Register]] = []
        for end, other in busy:
            if end < first:
                free.setdefault(other.bits, []).append(row[other])
            else:
                still.append((end, other))
        busy = still
        available = free.setdefault(register.bits, [])
        if available:
            row[register] = available.pop()
        else:
            row[register] = rows.get(register.bits, 0)
            rows[register.bits] = row[register] + 1
        busy.append((last, register))
    return RegisterFile(row, rows, {register: last for register, (_, last) in intervals.items()})


def _intervals(kernel: PtxKernel) -> Mapping[Register, tuple[int, int]]:
    """Return the first and the last instruction between which each register may be live."""
    blocks, number_of = blocks_of(kernel)
    index = {register: at for at, register in enumerate(kernel.registers)}
    uses, kills = _uses_and_kills(kernel, blocks, index)
    into = _live_at_begin(kernel, blocks, number_of, uses, kills)
    intervals: dict[Register, tuple[int, int]] = {}

    def extend(register: Register, at: int) -> None:
        first, last = intervals.get(register, (at, at))
        intervals[register] = min(first, at), max(last, at)

    for number, block in enumerate(blocks):
        leaving = 0
        for successor in _successors(kernel, blocks, number_of, number):
            leaving |= into[successor]
        for at, mask in ((block.first, into[number]), (block.end - 1, leaving)):
            for register in _named(mask, kernel.registers):
                extend(register, at)
        for at in range(block.first, block.end):
            for register in (*results_of(kernel.instructions[at]), *sources_of(kernel.instructions[at])):
                extend(register, at)
    return intervals


def _uses_and_kills(
    kernel: PtxKernel, blocks: Sequence[BasicBlock], index: Mapping[Register, int]
) -> tuple[list[int], list[int]]:
    """Return for each block, as bits, the registers read before they are written, and those written whole."""
    accumulators = _accumulators(kernel, index)
    uses, kills = list[int](), list[int]()
    for block in blocks:
        use = kill = 0
        for instruction in kernel.instructions[block.first : block.end]:
            for register in sources_of(instruction):
                if not kill >> index[register] & 1:
                    use |= 1 << index[register]
            # The products land in their registers at the wait.
            if instruction.words[:2] == ("wgmma", "wait_group"):
                use |= accumulators & ~kill
            if instruction.guard is None:
                for register in results_of(instruction):
                    kill |= 1 << index[register]
        uses.append(use)
        kills.append(kill)
    return uses, kills


def _accumulators(kernel: PtxKernel, index: Mapping[Register, int]) -> int:
    """Return the registers, as bits, in which products of warpgroups land."""
    accumulators = 0
    for instruction in kernel.instructions:
        if instruction.root == "wgmma":
            for register in results_of(instruction):
                accumulators |= 1 << index[register]
    return accumulators


def _live_at_begin(
    kernel: PtxKernel,
    blocks: Sequence[BasicBlock],
    number_of: Mapping[int, int],
    uses: Sequence[int],
    kills: Sequence[int],
) -> list[int]:
    into = list(uses)
    changed = True
    while changed:
        changed = False
        for number in range(len(blocks) - 1, -1, -1):
            leaving = 0
            for successor in _successors(kernel, blocks, number_of, number):
                leaving |= into[successor]
            live = uses[number] | leaving & ~kills[number]
            if live != into[number]:
                into[number], changed = live, True
    return into


def _successors(
    kernel: PtxKernel, blocks: Sequence[BasicBlock], number_of: Mapping[int, int], number: int
) -> Iterator[int]:
    last = kernel.instructions[blocks[number].end - 1]
    if last.root == "bra":
        yield from target_blocks(kernel, number_of, last)
    falls = not is_jump(last) or last.guard is not None
    if falls and number + 1 < len(blocks):
        yield number + 1


def target_blocks(kernel: PtxKernel, number_of: Mapping[int, int], branch: PtxInstruction) -> tuple[int, ...]:
    """Return the block to which a branch leads; none if it leads to the end."""
    (target,) = branch.operands
    assert isinstance(target, Symbol)
    block = number_of.get(kernel.labels[target.name])
    return () if block is None else (block,)


def _named(mask: int, registers: Sequence[Register]) -> Iterator[Register]:
    while mask:
        low = mask & -mask
        yield registers[low.bit_length() - 1]
        mask ^= low
