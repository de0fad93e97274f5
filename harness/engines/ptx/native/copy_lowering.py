"""`cp.async` in native code: the issue, which reads global memory, and the landing in shared memory."""

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np

from harness.engines.ptx.async_work import SharedShadow
from harness.engines.ptx.copies import Copy
from harness.engines.ptx.flow import sources_of
from harness.engines.ptx.native import warp_code
from harness.engines.ptx.native.access_lowering import (
    address,
    aligned,
    for_active,
    gathered,
    in_region,
    pointers,
    shared_places,
)
from harness.engines.ptx.native.shadow_lowering import ShadowCells
from harness.engines.ptx.native.warp_code import NotLowered, WarpCode, splat, vector
from harness.engines.ptx.native.wave_numbers import WaveNumbers
from harness.engines.ptx.ptx_kernel import Immediate, PtxInstruction
from harness.engines.ptx.race_shadow import RaceShadow
from harness.engines.ptx.threads import WARP, Array
from harness.engines.ptx.wave import Wave
from harness.engines.virtual.native import llvm_jit
from harness.engines.virtual.native.llvm_text import Assembly

WORD = 4
BUFFERS = 3
"""The addresses that the code gets for each `cp.async`: of its content, its places, and the mask of its threads."""


def copied_bytes(instruction: PtxInstruction) -> int:
    """Return the bytes that a thread copies; 0 for an instruction that is no such copy."""
    words = set(instruction.words)
    if instruction.root != "cp" or not {"ca", "cg"} & words or {"bulk", "L2::cache_hint"} & words:
        return 0
    if len(instruction.operands) < 3 or not isinstance(instruction.operands[2], Immediate):
        return 0
    return instruction.operands[2].value


def lower_copy(code: WarpCode, instruction: PtxInstruction) -> bool:
    """Write the issue of a copy; False for another instruction.

    Raises:
        NotLowered: it has a form that stays with the interpreter.
    """
    length = copied_bytes(instruction)
    if not length:
        return False
    if length not in {4, 8, 16} or len(instruction.operands) > 4:
        raise NotLowered
    target, origin = (address(code, operand) for operand in instruction.operands[:2])
    zero = "zeroinitializer"
    sizes = splat("u32", length)
    if len(instruction.operands) == 4:
        sizes = code.intrinsic("umin", "u32", code.read(instruction.operands[3], "u32"), sizes)
    check = code.checkpoint()
    inside, offsets, content = in_region(code, origin)
    # A thread that copies nothing may have any address.
    fine = code.binary("or", "pred", inside, code.compare("eq", "u32", sizes, zero))
    fine = code.binary("and", "pred", fine, aligned(code, code.binary("or", "b64", origin, target), length))
    whole = code.compare("eq", "u32", code.binary("and", "u32", sizes, splat("u32", WORD - 1)), zero)
    fine = code.binary("and", "pred", fine, whole)
    fine, places = shared_places(code, target, length, fine)
    with code.slow_unless(for_active(code, fine), sources_of(instruction), (), retry=check):
        _keep(code, length, (pointers(code, content, offsets), sizes, places))
    return True


def _keep(code: WarpCode, length: int, issue: tuple[str, str, str]) -> None:
    """Put what is copied, and where to, into the buffers of the instruction."""
    source, sizes, places = issue
    ir = code.code
    content, kept_places, mask = (_buffer(code, number) for number in range(BUFFERS))
    first = ir.value(f"mul i64 {code.warp}, {WARP}")
    at = ir.value(f"getelementptr i64, ptr {kept_places}, i64 {first}")
    ir.do(f"store {vector('b64')} {places}, ptr {at}, align 8")
    at = ir.value(f"getelementptr i8, ptr {mask}, i64 {first}")
    ir.do(f"store {vector('b8')} {code.cast('zext', 'pred', code.active(), 'b8')}, ptr {at}, align 1")
    words = length // WORD
    for word in range(words):
        taken = code.compare("ugt", "u32", sizes, splat("u32", WORD * word))
        taken = code.binary("and", "pred", taken, code.active()) if code.is_partial() else taken
        place = ir.value(f"getelementptr i8, <{WARP} x ptr> {source}, i64 {WORD * word}")
        value = gathered(code, place, "b32", taken)
        # The words of a thread lie one after the other: the number of threads is the stride of a word.
        row = ir.value(f"mul i64 {code.slot(warp_code.THREADS)}, {word}")
        row = ir.value(f"add i64 {row}, {first}")
        at = ir.value(f"getelementptr i32, ptr {content}, i64 {row}")
        ir.do(f"store {vector('b32')} {value}, ptr {at}, align 4")


def _buffer(code: WarpCode, number: int) -> str:
    table = code.pointer(code.slot(warp_code.BUFFERS))
    at = code.code.value(f"getelementptr i64, ptr {table}, i64 {code.number * BUFFERS + number}")
    return code.pointer(code.code.value(f"load i64, ptr {at}"))


@dataclass(frozen=True, slots=True)
class IssueBuffers:
    """The buffers of one issue."""

    content: Array
    """The words that are copied: axes word and thread."""
    places: Array
    mask: Array

    @classmethod
    def of(cls, wave: Wave, length: int) -> "IssueBuffers":
        return cls(
            np.empty((length // WORD, wave.size), np.uint32),
            np.empty(wave.size, np.int64),
            np.zeros(wave.size, np.bool_),
        )

    @property
    def addresses(self) -> tuple[int, int, int]:
        return self.content.ctypes.data, self.places.ctypes.data, self.mask.ctypes.data


@dataclass(frozen=True, slots=True)
class NativeCopy:
    """A copy whose issue was native code, and whose landing is."""

    wave: Wave
    instruction: PtxInstruction
    buffers: IssueBuffers
    issued: object

    def land(self, landing: Array) -> None:
        """Land the copies of some threads."""
        wave, buffers = self.wave, self.buffers
        shadow = wave.asynchronous.shadow
        mine = landing & buffers.mask
        if isinstance(shadow, RaceShadow) and isinstance(self.issued, np.ndarray):
            cell_bytes, number, issued = shadow.cell_bytes, shadow.number_of(self.instruction), self.issued.ctypes.data
        else:
            cell_bytes = number = issued = 0
        is_known = type(shadow) is SharedShadow or (cell_bytes and wave.shape.cluster == 1)
        if is_known and _landing(cell_bytes, len(buffers.content))(
            WaveNumbers.of(wave).address,
            mine.ctypes.data,
            buffers.places.ctypes.data,
            buffers.content.ctypes.data,
            issued,
            number,
        ):
            return
        threads = np.flatnonzero(mine)
        content = np.ascontiguousarray(buffers.content[:, threads].T).view(np.uint8)
        Copy(wave, self.instruction, threads, buffers.places[threads], content, self.issued).land(landing)


@cache
def _landing(cell_bytes: int, words: int) -> Callable[..., int]:
    """Return the function that lands copies; it returns 0, with nothing changed, if the shadow must report.

    Args:
        cell_bytes: the size of a cell of the shadow; 0 for none.
        words: the words that a thread copies.
    """
    code = llvm_jit.Code(llvm_jit.compile_object(_landing_text(cell_bytes, words)), "landing")
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *(ctypes.c_int64,) * 5)(code.address)
    _LOADED.append(code)
    return call


_LOADED: list[llvm_jit.Code] = []
"""Code that is unloaded with its last reference."""


def _landing_text(cell_bytes: int, words: int) -> str:
    code = Assembly()
    for name in ("mask", "places", "content", "issued"):
        code.do(f"%{name} = inttoptr i64 %{name}.address to ptr")
    cells = ShadowCells(code, cell_bytes or WORD, words * WORD // (cell_bytes or WORD))
    number = code.value("trunc i64 %number to i32")
    if cell_bytes:
        with code.loop(cells.number(warp_code.WARPS)) as warp:
            _, row = cells.agent(warp)
            clock = code.value(f"getelementptr i32, ptr %issued, i64 {row}")
            with _threads(code, warp) as (_, place):
                cell = cells.first(place)
                code.request_bailout(cells.unknown_store(cell, clock))
                code.request_bailout(cells.unknown_load(cell, clock, "-1"))
        code.bail_if_requested("doubtful")
    with code.loop(cells.number(warp_code.WARPS)) as warp:
        agent, row = cells.agent(warp)
        with _threads(code, warp) as (thread, place):
            _move(code, cells, words, thread, place)
            if cell_bytes:
                at = code.value(f"getelementptr i32, ptr {cells.clock(row)}, i64 {agent}")
                cells.note_store(cells.first(place), agent, code.value(f"load i32, ptr {at}"), number)
    code.do("ret i64 1")
    if cell_bytes:
        code.start("doubtful")
        code.do("ret i64 0")
    taken = "i64 %mask.address, i64 %places.address, i64 %content.address, i64 %issued.address, i64 %number"
    return code.text(f"i64 @landing(ptr %context, {taken})")


def _move(code: Assembly, cells: ShadowCells, words: int, thread: str, place: str) -> None:
    """Put the words of a thread into shared memory, and mark them as written."""
    shared, written, threads = (cells.number(slot) for slot in (warp_code.SHARED, warp_code.WRITTEN, warp_code.THREADS))
    for word in range(words):
        index = code.value(f"add i64 {code.value(f'mul i64 {threads}, {word}')}, {thread}")
        at = code.value(f"getelementptr i32, ptr %content, i64 {index}")
        value = code.value(f"load i32, ptr {at}")
        to = code.value(f"add i64 {place}, {WORD * word}")
        for memory, stored in ((shared, value), (written, str(0x01010101))):
            pointer = code.value(f"inttoptr i64 {code.value(f'add i64 {memory}, {to}')} to ptr")
            code.do(f"store i32 {stored}, ptr {pointer}, align 4")


@contextmanager
def _threads(code: Assembly, warp: str) -> Generator[tuple[str, str]]:
    """Write the body of a loop over the threads of a warp whose copies land; yields a thread and its place."""
    begin = code.value(f"mul i64 {warp}, {WARP}")
    with code.loop(WARP) as lane:
        thread = code.value(f"add i64 {begin}, {lane}")
        at = code.value(f"getelementptr i8, ptr %mask, i64 {thread}")
        with code.when(code.value(f"icmp ne i8 {code.value(f'load i8, ptr {at}')}, 0")):
            at = code.value(f"getelementptr i64, ptr %places, i64 {thread}")
            yield thread, code.value(f"load i64, ptr {at}")
