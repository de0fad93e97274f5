"""What `RaceShadow` does at an access of one thread, in native code, unless it finds something to report.

A warp is one agent, so its clock is one row of numbers.  A function first checks all lanes and changes nothing; where
anything looks like a flaw it returns false, and the interpreter executes the instruction and reports.
"""

from harness.engines.ptx.native import warp_code
from harness.engines.ptx.threads import WARP
from harness.engines.virtual.native.llvm_text import Assembly

LOAD, STORE = "shadow_load", "shadow_store"


class ShadowCells:
    """Writes checks and updates of the cells that one thread uses, which lie side by side."""

    def __init__(self, code: Assembly, cell_bytes: int, count: int) -> None:
        """`count` cells of `cell_bytes` each."""
        self.code = code
        self._cell_bytes = cell_bytes
        self._count = count
        self._tables: dict[int, str] = {}
        self._agents, self._cells = self.number(warp_code.AGENTS), self.number(warp_code.CELLS)
        self._warps = self.number(warp_code.CTA_WARPS)
        slots = ("WRITER", "WRITTEN_AT", "WRITTEN_BY", "IS_ASYNC", "READ_AT", "READ_BY", "CLOCK", "WRITTEN")
        for slot in (getattr(warp_code, name) for name in slots):
            self._tables[slot] = code.value(f"inttoptr i64 {self.number(slot)} to ptr")

    def number(self, slot: int) -> str:
        """Return a number of the context."""
        at = self.code.value(f"getelementptr i64, ptr %context, i64 {slot}")
        return self.code.value(f"load i64, ptr {at}")

    def agent(self, warp: str) -> tuple[str, str]:
        """Return the agent of a warp, and the first place of its clock."""
        code = self.code
        cta, agent = code.value(f"udiv i64 {warp}, {self._warps}"), code.value(f"urem i64 {warp}, {self._warps}")
        row = code.value(f"add i64 {code.value(f'mul i64 {cta}, {self._agents}')}, {agent}")
        return agent, code.value(f"mul i64 {row}, {self._agents}")

    def clock(self, row: str) -> str:
        """Return a pointer to the clock of an agent now."""
        return self.code.value(f"getelementptr i32, ptr {self._tables[warp_code.CLOCK]}, i64 {row}")

    def first(self, place: str) -> str:
        """Return the first cell of a place."""
        return self.code.value(f"udiv i64 {place}, {self._cell_bytes}")

    def _vector(self, kind: str) -> str:
        return f"<{self._count} x {kind}>"

    def _at(self, kind: str, slot: int, index: str) -> str:
        return self.code.value(f"getelementptr {kind}, ptr {self._tables[slot]}, i64 {index}")

    def _load(self, kind: str, slot: int, index: str) -> str:
        size = int(kind[1:]) // 8
        return self.code.value(f"load {self._vector(kind)}, ptr {self._at(kind, slot, index)}, align {size}")

    def _splat(self, kind: str, value: str) -> str:
        code, vector = self.code, self._vector(kind)
        one = code.value(f"insertelement {vector} poison, {kind} {value}, i64 0")
        return code.value(f"shufflevector {vector} {one}, {vector} poison, <{self._count} x i32> zeroinitializer")

    def _any(self, condition: str) -> str:
        if self._count == 1:
            return self.code.value(f"extractelement <1 x i1> {condition}, i64 0")
        return self.code.call("i1", f"llvm.vector.reduce.or.v{self._count}i1", (self._vector("i1"), condition))

    def unwritten(self, cell: str) -> str:
        """Return an i1: True if nothing has written some byte."""
        kind = f"i{8 * self._cell_bytes}"
        ones = f"splat ({kind} {int.from_bytes(bytes([1] * self._cell_bytes), 'little')})"
        values = self._load(kind, warp_code.WRITTEN, cell)
        return self._any(self.code.value(f"icmp ne {self._vector(kind)} {values}, {ones}"))

    def unknown_store(self, cell: str, clock: str) -> str:
        """Return an i1: True if a clock does not know the last store of some cell."""
        code, wide, flags = self.code, self._vector("i64"), self._vector("i1")
        writer = code.value(f"sext {self._vector('i16')} {self._load('i16', warp_code.WRITER, cell)} to {wide}")
        exists = code.value(f"icmp sge {wide} {writer}, zeroinitializer")
        index = code.value(f"select {flags} {exists}, {wide} {writer}, {wide} zeroinitializer")
        at = code.value(f"getelementptr i32, ptr {clock}, {wide} {index}")
        known = code.call(
            self._vector("i32"),
            f"llvm.masked.gather.v{self._count}i32.v{self._count}p0",
            (f"<{self._count} x ptr> align 4", at),
            (flags, "splat (i1 true)"),
            (self._vector("i32"), "zeroinitializer"),
        )
        written_at = self._load("i32", warp_code.WRITTEN_AT, cell)
        late = code.value(f"icmp sgt {self._vector('i32')} {written_at}, {known}")
        return self._any(code.value(f"and {flags} {exists}, {late}"))

    def unknown_load(self, cell: str, clock: str, agent: str) -> str:
        """Return an i1: True if a clock does not know a load of some cell by another agent than this one."""
        code, flags = self.code, self._vector("i1")
        slot = code.stack_slot(flags)
        code.do(f"store {flags} zeroinitializer, ptr {slot}")
        with code.loop(self._agents) as reader:
            index = code.value(f"add i64 {code.value(f'mul i64 {reader}, {self._cells}')}, {cell}")
            read = self._load("i32", warp_code.READ_AT, index)
            at = code.value(f"getelementptr i32, ptr {clock}, i64 {reader}")
            known = self._splat("i32", code.value(f"load i32, ptr {at}"))
            late = code.value(f"icmp sgt {self._vector('i32')} {read}, {known}")
            other = self._splat("i1", code.value(f"icmp ne i64 {reader}, {agent}"))
            late = code.value(f"and {flags} {late}, {other}")
            before = code.value(f"load {flags}, ptr {slot}")
            code.do(f"store {flags} {code.value(f'or {flags} {late}, {before}')}, ptr {slot}")
        return self._any(code.value(f"load {flags}, ptr {slot}"))

    def _fill(self, kind: str, slot: int, cell: str, value: str) -> None:
        size = int(kind[1:]) // 8
        at = self._at(kind, slot, cell)
        self.code.do(f"store {self._vector(kind)} {self._splat(kind, value)}, ptr {at}, align {size}")

    def note_store(self, cell: str, agent: str, time: str, number: str) -> None:
        """Note a store by an agent (i64) at a time of its clock, by an instruction with a number (both i32)."""
        self._fill("i16", warp_code.WRITER, cell, self.code.value(f"trunc i64 {agent} to i16"))
        self._fill("i32", warp_code.WRITTEN_AT, cell, time)
        self._fill("i32", warp_code.WRITTEN_BY, cell, number)
        self._fill("i8", warp_code.IS_ASYNC, cell, "0")

    def note_load(self, cell: str, agent: str, time: str, number: str) -> None:
        """Note a load."""
        own = self.code.value(f"mul i64 {agent}, {self._cells}")
        self._fill("i32", warp_code.READ_AT, self.code.value(f"add i64 {own}, {cell}"), time)
        self._fill("i32", warp_code.READ_BY, cell, number)


def shadow_function(name: str, cell_bytes: int, count: int) -> tuple[str, str]:
    """Return the name and the text of a function of a warp.

    Its arguments: the context, the warp, 32 places in shared memory, the bits of the active lanes and of those that
    change memory, and the number of the instruction in the shadow.

    Args:
        name: LOAD or STORE.
        cell_bytes: the size of a cell.
        count: how many cells each lane uses.
    """
    code = Assembly()
    cells = ShadowCells(code, cell_bytes, count)
    agent, row = cells.agent("%warp")
    clock = cells.clock(row)
    with code.loop(WARP) as lane, code.when(_bit(code, "%lanes", lane)):
        cell = cells.first(_place(code, lane))
        unwritten, unknown = cells.unwritten(cell), cells.unknown_store(cell, clock)
        if name == STORE:
            unknown = code.value(f"or i1 {unknown}, {cells.unknown_load(cell, clock, agent)}")
            changes = code.value(f"or i1 {_bit(code, '%changed', lane)}, {unwritten}")
            code.request_bailout(code.value(f"and i1 {unknown}, {changes}"))
        else:
            code.request_bailout(code.value(f"or i1 {unknown}, {unwritten}"))
    code.bail_if_requested("doubtful")
    own = code.value(f"load i32, ptr {code.value(f'getelementptr i32, ptr {clock}, i64 {agent}')}")
    with code.loop(WARP) as lane, code.when(_bit(code, "%lanes", lane)):
        note = cells.note_store if name == STORE else cells.note_load
        note(cells.first(_place(code, lane)), agent, own, "%number")
    code.do("ret i1 true")
    code.start("doubtful")
    code.do("ret i1 false")
    whole = f"{name}_{count}"
    arguments = "ptr %context, i64 %warp, ptr %places, i32 %lanes, i32 %changed, i32 %number"
    text = code.text(f"internal i1 @{whole}({arguments}) noinline")
    return whole, text


def _bit(code: Assembly, bits: str, lane: str) -> str:
    shifted = code.value(f"lshr i32 {bits}, {code.value(f'trunc i64 {lane} to i32')}")
    return code.value(f"trunc i32 {shifted} to i1")


def _place(code: Assembly, lane: str) -> str:
    at = code.value(f"getelementptr i64, ptr %places, i64 {lane}")
    return code.value(f"load i64, ptr {at}")
