"""Runs of straight instructions as native code: when they are compiled, and how they are called.

A run is compiled once the interpreter has spent about as much time on it as compiling takes.  Code is kept on disk by
its content.  An access that the code is not sure of goes back to the interpreter, for the one warp.
"""

import ctypes
import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from harness.engines.ptx.async_work import SharedShadow
from harness.engines.ptx.flow import registers_in
from harness.engines.ptx.lane_accesses import space_of
from harness.engines.ptx.memories import GlobalWatch
from harness.engines.ptx.native import warp_code
from harness.engines.ptx.native.access_lowering import REGION_FIELDS, memory_kind
from harness.engines.ptx.native.copy_lowering import BUFFERS, IssueBuffers, NativeCopy, copied_bytes
from harness.engines.ptx.native.run_lowering import SYMBOL, is_lowered, lowered
from harness.engines.ptx.native.warp_code import DONE, FAILED, RETRY
from harness.engines.ptx.native.wave_numbers import WaveNumbers
from harness.engines.ptx.ptx_kernel import Address, PtxInstruction, Register, Special, Symbol, parts
from harness.engines.ptx.race_shadow import RaceShadow
from harness.engines.ptx.threads import WARP, Array
from harness.engines.ptx.wave import Effect, RegisterRows, Wave
from harness.engines.ttir.source_version import source_version
from harness.engines.virtual.machine import CannotExecuteAt
from harness.engines.virtual.native import code_cache, llvm_jit
from harness.engines.virtual.native.native_code import ExecutorMode
from harness.errors import CannotExecute

MOST_INSTRUCTIONS = 256
"""The longest run; LLVM takes more than twice the time for twice the block."""
SECONDS_TO_COMPILE = 0.01
SECONDS_PER_INSTRUCTION = 0.002
"""The approximate compile time on one core of a current server."""
SLOW_COST = 16
"""What a warp that goes back to the interpreter costs, in units of a search for a region."""
MOST_COST = 256 * SLOW_COST
"""After so many of these units in one launch, the interpreter executes the run."""
_SHADOWED = frozenset({"ld", "st", "ldmatrix", "stmatrix"})


@dataclass(frozen=True, slots=True)
class NativePolicy:
    """Which runs of a kernel become native code, and where code is kept."""

    mode: ExecutorMode = ExecutorMode.AUTO
    folder: Path | None = None


@cache
def _lowering_version() -> str:
    return source_version(Path(__file__).parent.glob("*.py"))


@dataclass(slots=True)
class _Variant:
    """One way to call a run, and its code once it is compiled."""

    budget_s: float
    code: llvm_jit.Code | None = None
    call: Callable[[int], int] | None = None


@dataclass(slots=True)
class _LaunchState:
    """What is known of a run in one launch."""

    regions: Array
    """The region that each access used last."""
    cost: int = 0
    """What the warps cost that native code was not sure of."""


class _WaveCalls:
    """Calls native code for one wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._numbers = WaveNumbers.of(wave)
        self._numbers.set_slow(self._slow)
        self._run: NativeRun | None = None
        """The run under way."""
        self._failure: tuple[int, BaseException] | None = None
        self._shadow_numbers: dict[NativeRun, Array] = {}

    @classmethod
    def of(cls, wave: Wave) -> "_WaveCalls":
        known = wave.kept.get(cls)
        if not isinstance(known, cls):
            known = wave.kept[cls] = cls(wave)
        return known

    def call(self, run: "NativeRun", call: Callable[[int], int]) -> None:
        """Execute a run.

        Raises:
            CannotExecuteAt: an instruction of it cannot be executed.
        """
        wave, numbers = self._wave, self._numbers
        values = numbers.values
        numbers.need(run.specials)
        values[warp_code.REGIONS] = run.state(wave).regions.ctypes.data
        values[warp_code.MASK] = 0 if wave.mask is None else wave.mask.ctypes.data
        if run.touches_shared and isinstance(shadow := wave.asynchronous.shadow, RaceShadow):
            values[warp_code.SHADOW_NUMBERS] = self._numbered(run, shadow).ctypes.data
        issues = run.issues(wave)
        if issues:
            table = np.zeros((len(run.instructions), BUFFERS), np.int64)
            for number, buffers in issues.items():
                table[number] = buffers.addresses
            values[warp_code.BUFFERS] = table.ctypes.data
        self._run = run
        if call(numbers.address):
            assert self._failure is not None
            number, error = self._failure
            self._failure = None
            raise run.located(number, error)
        for number, buffers in issues.items():
            issued = wave.asynchronous.shadow.snapshot()
            copy = NativeCopy(wave, run.instructions[number], buffers, issued)
            wave.asynchronous.copies.issue(buffers.mask, copy)

    def _numbered(self, run: "NativeRun", shadow: RaceShadow) -> Array:
        if run not in self._shadow_numbers:
            known = [shadow.number_of(each) if _touches_shared(each) else 0 for each in run.instructions]
            self._shadow_numbers[run] = np.array(known, np.int64)
        return self._shadow_numbers[run]

    def _slow(self, number: int, warp: int) -> int:
        """Let the interpreter execute one instruction for one warp."""
        wave, run = self._wave, self._run
        assert run is not None
        outer = wave.mask
        lanes = slice(warp * WARP, warp * WARP + WARP)
        try:
            active = np.ones(WARP, np.bool_) if outer is None else outer[lanes]
            if self._learns(run, number, lanes, active):
                return RETRY
            run.state(wave).cost += SLOW_COST
            wave.mask = np.zeros(wave.size, np.bool_)
            wave.mask[lanes] = active
            run.effects[number](wave)
        except BaseException as error:  # noqa: BLE001 - an exception cannot pass through native code
            self._failure = number, error
            return FAILED
        finally:
            wave.mask = outer
        return DONE

    def _learns(self, run: "NativeRun", number: int, lanes: slice, active: Array) -> bool:
        """Keep the region of an access to global memory; False unless that is all that native code lacks."""
        access = run.accesses[number]
        if access is None:
            return False
        memory = self._wave.memories.global_memory
        state = run.state(self._wave)
        known = state.regions[number]
        addresses = access.addresses(self._wave, lanes, active)
        if not len(addresses) or (addresses % access.size_bytes).any():
            return False
        parts, stray = memory.parts(addresses, access.size_bytes)
        if len(parts) != 1 or stray is not None:
            return False
        region = parts[0].region
        if region.address == known[0] or region.address % 16 or not (access.loads or region.content.flags.writeable):
            return False
        known[:] = (
            region.address,
            max(0, region.size_bytes - access.size_bytes + 1),
            region.content.ctypes.data,
        )
        state.cost += 1
        return True


@dataclass(frozen=True, slots=True)
class _GlobalAccess:
    """How to know the addresses of an access to global memory."""

    operand: Address
    rows: RegisterRows
    guard: Callable[[Wave], Array] | None
    given: Callable[[Wave], Array] | None
    """How many bytes each thread copies; None if all copy the same."""
    size_bytes: int
    loads: bool

    def addresses(self, wave: Wave, lanes: slice, active: Array) -> Array:
        """Return the addresses of the lanes that access memory."""
        if self.guard is not None:
            active = active & self.guard(wave)[lanes]
        if self.given is not None:
            active = active & (np.broadcast_to(self.given(wave), (wave.size,))[lanes] > 0)
        base, offset = self.operand.base, self.operand.offset
        if isinstance(base, Register) and base.bits == 64:
            bits, row = self.rows.row(base)
            return wave.rows[bits][row][lanes][active].view(np.int64) + offset
        return np.broadcast_to(self.rows.address(self.operand)(wave), (wave.size,))[lanes][active]


class NativeRun:
    """Some straight instructions: an effect that is native code once that pays."""

    def __init__(
        self,
        instructions: Sequence[PtxInstruction],
        effects: Sequence[Effect],
        rows: RegisterRows,
        is_live: Callable[[Register], bool],
        policy: NativePolicy,
    ) -> None:
        self.instructions = tuple(instructions)
        self.effects = tuple(effects)
        self.accesses = tuple(_global_access(instruction, rows) for instruction in instructions)
        self._rows = rows
        self._is_live = is_live
        self._policy = policy
        self._moves = tuple(
            (source, destination)
            for instruction in instructions
            if (move := _register_move(instruction)) is not None
            for source, destination in (move,)
        )
        self._copies = tuple(
            (number, length) for number, each in enumerate(instructions) if (length := copied_bytes(each))
        )
        self.specials = tuple({part.name: None for each in instructions for part in _specials(each)})
        self._variants: dict[tuple[bool, int], _Variant] = {}
        self.touches_shared = any(_touches_shared(instruction) for instruction in instructions)
        self._touches_global = any(access is not None for access in self.accesses)
        self._stores_global = any(access is not None and not access.loads for access in self.accesses)

    def state(self, wave: Wave) -> "_LaunchState":
        """Return what is known of the run in the launch of a wave."""
        kept = wave.memories.global_memory.kept
        known = kept.get(self)
        if not isinstance(known, _LaunchState):
            known = kept[self] = _LaunchState(np.zeros((len(self.instructions), REGION_FIELDS), np.int64))
        return known

    def issues(self, wave: Wave) -> dict[int, IssueBuffers]:
        """Return buffers for the copies that the instructions issue, by the number of the instruction."""
        return {number: IssueBuffers.of(wave, length) for number, length in self._copies}

    def __call__(self, wave: Wave) -> None:
        """Execute the instructions.

        Raises:
            CannotExecuteAt: one of them cannot be executed.
        """
        key = self._key(wave)
        call = None if key is None else self._native(key)
        if call is None:
            self._interpret(wave, key)
            return
        _WaveCalls.of(wave).call(self, call)
        wave.memories.global_memory.changes += self._stores_global
        if self._moves and wave.asynchronous.products.works:
            for source, destination in self._moves:
                wave.asynchronous.copied(source, destination, wave.mask_of_active())

    def _key(self, wave: Wave) -> tuple[bool, int] | None:
        """Return the variant that a wave needs: masked, and the size of a shadow's cell; None for the interpreter."""
        if self.state(wave).cost > MOST_COST or (self._touches_global and not _is_silent(wave.memories.on_global)):
            return None
        shadow = wave.asynchronous.shadow
        if not self.touches_shared or type(shadow) is SharedShadow:
            return wave.mask is not None, 0
        # The memory of another CTA of a cluster may be that of a CTA that has ended.
        if type(shadow) is not RaceShadow or wave.shape.cluster > 1:
            return None
        return wave.mask is not None, shadow.cell_bytes

    def _interpret(self, wave: Wave, key: tuple[bool, int] | None) -> None:
        began = time.perf_counter()
        for number, effect in enumerate(self.effects):
            try:
                effect(wave)
            except CannotExecute as error:
                raise self.located(number, error) from error
        if key is not None and (variant := self._variants.get(key)) is not None:
            variant.budget_s -= time.perf_counter() - began

    def located(self, number: int, error: BaseException) -> BaseException:
        """Return an error with the place of the instruction."""
        if isinstance(error, CannotExecute) and not isinstance(error, CannotExecuteAt):
            return CannotExecuteAt(error.what, self.instructions[number].location)
        return error

    def _native(self, key: tuple[bool, int]) -> Callable[[int], int] | None:
        if key not in self._variants:
            self._variants[key] = self._variant(key)
        variant = self._variants[key]
        if variant.call is None and variant.budget_s < 0:
            self._compile(key, variant)
        return variant.call

    def _variant(self, key: tuple[bool, int]) -> _Variant:
        compile_s = SECONDS_TO_COMPILE + SECONDS_PER_INSTRUCTION * len(self.instructions)
        variant = _Variant(-1.0 if self._policy.mode is ExecutorMode.NATIVE else compile_s)
        if (kept := code_cache.Store(self._policy.folder).find(self._name(key))) is not None:
            _load(variant, kept.image)
        return variant

    def _name(self, key: tuple[bool, int]) -> str:
        host = llvm_jit.host()
        used = {row: self._is_live(row) for row in _registers(self.instructions)}
        rows = [(register.name, *self._rows.row(register), live) for register, live in used.items()]
        content = [(each.words, each.operands, each.guard) for each in self.instructions]
        variables = {symbol.name: self._rows.known_address(symbol) for symbol in _symbols(self.instructions)}
        parts = (content, rows, self._rows.kernel.parameters, variables, key, host, _lowering_version())
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]

    def _compile(self, key: tuple[bool, int], variant: _Variant) -> None:
        masked, cell_bytes = key
        text = lowered(self.instructions, self._rows, self._is_live, masked=masked, cell_bytes=cell_bytes)
        try:
            image = llvm_jit.compile_object(text)
        except RuntimeError:  # LLVM rejects our text: the interpreter still can execute the run
            variant.budget_s = math.inf
            return
        code_cache.Store(self._policy.folder).keep(self._name(key), code_cache.Compiled(image, 0, ()))
        _load(variant, image)


def _touches_shared(instruction: PtxInstruction) -> bool:
    return instruction.root in _SHADOWED and space_of(instruction) == "shared"


def _specials(instruction: PtxInstruction) -> Sequence[Special]:
    return [part for part in instruction.operands if isinstance(part, Special)]


def _is_silent(watch: GlobalWatch) -> bool:
    kind = type(watch)
    return kind.loaded is GlobalWatch.loaded and kind.stored is GlobalWatch.stored


def _load(variant: _Variant, image: bytes) -> None:
    variant.code = llvm_jit.Code(image, SYMBOL)
    variant.call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(variant.code.address)


def _elements(instruction: PtxInstruction) -> int:
    return len(parts(instruction.operands[1 if instruction.root == "st" else 0]))


def _register_move(instruction: PtxInstruction) -> tuple[Register, Register] | None:
    if instruction.root != "mov" or instruction.kind == "pred":
        return None
    destination, source = instruction.operands
    return (source, destination) if isinstance(source, Register) and isinstance(destination, Register) else None


def _global_access(instruction: PtxInstruction, rows: RegisterRows) -> _GlobalAccess | None:
    guard = None if instruction.guard is None else rows.reader(instruction.guard, np.bool_)
    if length := copied_bytes(instruction):
        operand, *rest = instruction.operands[1], *instruction.operands[3:]
        assert isinstance(operand, Address)
        given = rows.reader(rest[0], np.uint32) if rest else None
        return _GlobalAccess(operand, rows, guard, given, length, loads=True)
    if instruction.root not in {"ld", "ldu", "st"} or space_of(instruction) not in {"global", "const"}:
        return None
    operand = instruction.operands[0 if instruction.root == "st" else 1]
    assert isinstance(operand, Address)
    size = warp_code.bits_of(memory_kind(instruction)) // 8 * _elements(instruction)
    return _GlobalAccess(operand, rows, guard, None, size, loads=instruction.root != "st")


def _registers(instructions: Sequence[PtxInstruction]) -> Sequence[Register]:
    found = dict[Register, None]()
    for instruction in instructions:
        for operand in (*instruction.operands, instruction.guard):
            found |= dict.fromkeys(registers_in(operand))
    return tuple(found)


def _symbols(instructions: Sequence[PtxInstruction]) -> Sequence[Symbol]:
    operands = [part for instruction in instructions for part in instruction.operands]
    bases = [part.base if isinstance(part, Address) else part for part in operands]
    return [part for part in bases if isinstance(part, Symbol)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRuns:
    """Puts runs in the place of the instructions that native code can execute."""

    rows: RegisterRows
    is_live: Callable[[Register, int], bool]
    """Returns True for a register that may be read after the instruction with a number."""
    policy: NativePolicy

    def merged(
        self, instructions: Sequence[PtxInstruction], effects: Sequence[Effect], numbers: Sequence[int]
    ) -> tuple[tuple[Effect, ...], tuple[PtxInstruction, ...]]:
        """Return the effects of a block, and an instruction for each.

        Args:
            instructions: those of the block.
            effects: what each does in the interpreter.
            numbers: their numbers in the kernel.
        """
        if self.policy.mode is ExecutorMode.NUMPY or not llvm_jit.host().has_fma:
            return tuple(effects), tuple(instructions)
        merged: list[Effect] = []
        shown: list[PtxInstruction] = []
        for first, end, is_native in _runs(instructions, self.rows):
            if is_native:
                live = _LiveAfter(self.is_live, numbers[end - 1])
                merged.append(NativeRun(instructions[first:end], effects[first:end], self.rows, live, self.policy))
                shown.append(instructions[first])
            else:
                merged += effects[first:end]
                shown += instructions[first:end]
        return tuple(merged), tuple(shown)


@dataclass(frozen=True, slots=True)
class _LiveAfter:
    is_live: Callable[[Register, int], bool]
    last: int

    def __call__(self, register: Register) -> bool:
        return self.is_live(register, self.last)


def _runs(instructions: Sequence[PtxInstruction], rows: RegisterRows) -> Sequence[tuple[int, int, bool]]:
    """Return the parts of a block: first, end, and whether native code executes them."""
    parts: list[tuple[int, int, bool]] = []
    uses = ""
    for at, instruction in enumerate(instructions):
        is_native = is_lowered(instruction, rows)
        use = "" if not _touches_shared(instruction) else "store" if instruction.root.startswith("st") else "load"
        # Warps execute a run one after the other, which would swap who comes first in a race.
        meets = not use or not uses or use == uses
        if parts and parts[-1][2] == is_native and at - parts[-1][0] < MOST_INSTRUCTIONS and meets:
            parts[-1] = parts[-1][0], at + 1, is_native
            uses = use or uses
        else:
            parts.append((at, at + 1, is_native))
            uses = use
    return parts
