"""Tensor cores of a warpgroup: `wgmma`, whose operands lie in shared memory and whose sums land at a wait.

The operands are read when the sums land, so a tile that is overwritten too early shows as a wrong sum.
"""

import re
from dataclasses import dataclass, field

import numpy as np

from harness.engines.ptx.descriptors import MatrixPlaces
from harness.engines.ptx.fragments import left_fragment, sum_fragment
from harness.engines.ptx.lane_accesses import Issue, read_tile
from harness.engines.ptx.matrices import RegisterGroup, gather, numbers_of, product, registers_of
from harness.engines.ptx.ptx_kernel import Immediate, Operand, PtxInstruction, Register, RegisterVector, parts
from harness.engines.ptx.threads import WARP, Array
from harness.engines.ptx.wave import Effect, Read, RegisterRows, Wave
from harness.errors import CannotExecute

_SHAPE = re.compile(r"m64n(\d+)k(\d+)$")
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8}
WARPS = 4
HEIGHT = 64


def warpgroup_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """Return the effect of a `wgmma` instruction.

    Raises:
        CannotExecute: the instruction is not known.
    """
    match instruction.words[1]:
        case "fence":
            return lambda _: None
        case "commit_group":
            return lambda wave: wave.asynchronous.products.commit(wave.mask_of_active())
        case "wait_group":
            (count,) = instruction.operands
            assert isinstance(count, Immediate)
            return lambda wave: wave.asynchronous.products.wait(wave.mask_of_active(), count.value)
        case "mma_async":
            return _multiply(instruction, rows)
        case _:
            raise CannotExecute(f"the PTX instruction {instruction.opcode}")


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """The types and the shape of one instruction."""

    instruction: PtxInstruction
    width: int
    depth: int
    out: str
    left: str
    right: str
    destination: tuple[Operand, ...]
    transposes: tuple[bool, bool]
    """For both operands: neighbours along M or N are neighbours in memory."""
    signs: tuple[int, int]
    rows: RegisterRows


def _form(instruction: PtxInstruction, rows: RegisterRows) -> _Form:
    words = instruction.words
    shape = next((found for word in words if (found := _SHAPE.match(word))), None)
    kinds = [word for word in words if word in {*_BITS, "f32", "s32"}]
    if shape is None or len(kinds) != 3 or "sp" in words:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    destination, left, *_ = instruction.operands
    numbers = [part.value for part in instruction.operands[4:] if isinstance(part, Immediate)]
    is_in_registers = isinstance(left, RegisterVector)
    signs = (numbers[0], numbers[1]) if len(numbers) > 1 else (1, 1)
    flags = numbers[2:]
    left_flag = bool(flags[0]) if len(flags) == 2 else False
    right_flag = bool(flags[-1]) if flags else False
    return _Form(
        instruction=instruction,
        width=int(shape[1]),
        depth=int(shape[2]),
        out=kinds[0],
        left=kinds[1],
        right=kinds[2],
        destination=tuple(parts(destination)),
        transposes=(left_flag and not is_in_registers, right_flag),
        signs=signs,
        rows=rows,
    )


def _multiply(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    form = _form(instruction, rows)
    left, right, keeps = instruction.operands[1:4]
    fragments = RegisterGroup.of(left, 32, rows) if isinstance(left, RegisterVector) else None
    left_descriptor = None if fragments is not None else rows.reader(left, np.uint64)
    right_descriptor = rows.reader(right, np.uint64)
    keeps_sum = rows.reader(keeps, np.bool_)

    def effect(wave: Wave) -> None:
        warps = wave.active_warps(instruction.opcode)
        if len(warps) % WARPS or (warps[::WARPS] % WARPS).any():
            raise CannotExecute(f"{instruction.opcode} in a part of a warpgroup")
        work = _Product(
            wave=wave,
            form=form,
            warps=warps,
            left=_first_lanes(wave, left_descriptor, warps) if left_descriptor is not None else None,
            fragments=fragments.read(wave, warps) if fragments is not None else None,
            right=_first_lanes(wave, right_descriptor, warps),
            keeps=_first_lanes(wave, keeps_sum, warps),
            issued=wave.asynchronous.shadow.snapshot(),
        )
        wave.asynchronous.products.issue(wave.mask_of_active(), work)

    return effect


def _first_lanes(wave: Wave, read: Read, warps: Array) -> Array:
    """Return an operand as the first lane of each warpgroup has it."""
    values = np.broadcast_to(read(wave), (wave.size,)).reshape(-1, WARP)
    return values[warps[::WARPS], 0].copy()


@dataclass(frozen=True, slots=True, eq=False)
class _Copy:
    """Threads copied a register."""

    source: Register
    destination: Register
    threads: Array


@dataclass(slots=True, kw_only=True, eq=False)
class _Product:
    """One `wgmma` that has been issued."""

    wave: Wave
    form: _Form
    warps: Array
    left: Array | None
    """The descriptors of the left operand; None if it is in registers."""
    fragments: Array | None
    right: Array
    keeps: Array
    """For each warpgroup whether the product is added to the sum."""
    issued: object
    copies: list["_Copy"] = field(default_factory=list["_Copy"])
    """Copies of results that were made before they landed."""

    def land(self, landing: Array) -> None:
        """Compute the sums of the warpgroups that wait."""
        form, wave = self.form, self.wave
        waits = landing.reshape(-1, WARP)[:, 0][self.warps[::WARPS]]
        if not waits.any():
            return
        warps = self.warps.reshape(-1, WARPS)[waits]
        right = self._operand(wave, form, self.right[waits], warps, is_left=False)
        if self.left is not None:
            left = self._operand(wave, form, self.left[waits], warps, is_left=True)
        else:
            assert self.fragments is not None
            chosen = self.fragments.reshape(-1, WARPS, WARP, self.fragments.shape[2])[waits]
            fragment = left_fragment(form.depth, _BITS[form.left])
            flat = gather(chosen.reshape(-1, *chosen.shape[2:]), fragment, (16, form.depth), form.left)
            left = flat.reshape(-1, HEIGHT, form.depth)
        addend = self._sums(wave, warps)
        addend = np.where(self.keeps[waits][:, None, None], addend, addend.dtype.type(0))
        total = product(left * form.signs[0], (right * form.signs[1]).swapaxes(1, 2), addend)
        self._write(wave, warps, total)

    def _operand(self, wave: Wave, form: _Form, descriptors: Array, warps: Array, *, is_left: bool) -> Array:
        """Return an operand with the axes warpgroup, row, depth."""
        kind = form.left if is_left else form.right
        size = _BITS[kind] // 8
        count = HEIGHT if is_left else form.width
        transposed = form.transposes[0 if is_left else 1]
        places = MatrixPlaces.hopper(descriptors).addresses(count, form.depth, size, is_depth_inner=not transposed)
        raw = read_tile(Issue(wave, form.instruction, warps[:, 0] * WARP, self.issued), places, size)
        return elements(raw, kind)

    def _sums(self, wave: Wave, warps: Array) -> Array:
        form = self.form
        kind = form.out
        group = RegisterGroup(tuple(form.rows.reader(part, np.uint32) for part in form.destination), np.uint32)
        flat = warps.reshape(-1)
        raw = group.read(wave, flat)
        fragment = sum_fragment(16, form.width, 16 if kind == "f16" else 32)
        return gather(raw, fragment, (16, form.width), kind).reshape(-1, HEIGHT, form.width)

    def _write(self, wave: Wave, warps: Array, total: Array) -> None:
        form = self.form
        row, column = sum_fragment(16, form.width, 16 if form.out == "f16" else 32)
        flat = warps.reshape(-1)
        registers = registers_of(total.reshape(-1, 16, form.width)[:, row, column], form.out)
        mask = np.zeros(wave.size // WARP, np.bool_)
        mask[flat] = True
        landing = np.repeat(mask, WARP)
        nobody = np.zeros_like(landing)
        whole = np.zeros((wave.size // WARP, WARP), registers.dtype)
        outer = wave.mask
        for number, part in enumerate(form.destination):
            whole[flat] = registers[:, :, number]
            holders = {part: landing}
            for copy in self.copies:
                if (threads := holders.get(copy.source)) is not None:
                    holders[copy.destination] = threads & copy.threads | holders.get(copy.destination, nobody)
            for target, wave.mask in holders.items():
                form.rows.writer(target)(wave, whole.reshape(-1))
        wave.mask = outer

    def copied(self, source: Register, destination: Register, threads: Array) -> None:
        """Hear that threads copied a register before the sums landed."""
        results = {*self.form.destination, *(copy.destination for copy in self.copies)}
        if source in results:
            self.copies.append(_Copy(source, destination, threads))


def elements(raw: Array, kind: str) -> Array:
    """Return elements that were read from shared memory one by one as numbers."""
    match kind:
        case "f16":
            return raw.view(np.float16).astype(np.float64)
        case "bf16":
            return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        case "tf32" | "f32":
            return numbers_of(raw, kind)[..., 0]
        case "s8":
            return raw.view(np.int8).astype(np.int64)
        case "u8":
            return raw.astype(np.int64)
        case _:
            return numbers_of(raw.astype(np.uint32), kind)[..., 0]
