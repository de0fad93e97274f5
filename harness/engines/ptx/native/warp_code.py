"""The body of one native function: a loop over warps, in which a register is a vector of 32 lanes.

A row of the register file is read where it is first used, and written at the end of the loop's body.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from harness.engines.ptx.ptx_kernel import Immediate, Negated, Operand, Register, Sink, Special, Symbol
from harness.engines.ptx.threads import WARP
from harness.engines.ptx.wave import RegisterRows
from harness.engines.virtual.native.llvm_text import Assembly

WARPS, MASK, SHARED, WRITTEN, SHARED_BYTES, SHARED_STRIDE, CTA_WARPS, PARAMETERS = range(8)
LOCAL, LOCAL_STRIDE, LOCAL_BYTES, SLOW, REGIONS, SHADOW_NUMBERS, THREADS = range(8, 15)
FILES: Mapping[int, int] = {1: 15, 8: 16, 16: 17, 32: 18, 64: 19}
"""By width, the slot of the address of a file of rows."""
SPECIALS = (
    *("%tid.x", "%tid.y", "%tid.z", "%laneid", "%warpid", "%ntid.x", "%ntid.y", "%ntid.z"),
    *("%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z"),
    *("%cluster_ctarank", "%cluster_ctaid.x", "%cluster_nctarank", "%lanemask_lt", "%lanemask_eq", "%smid"),
)
FIRST_SPECIAL = 20
WRITER, WRITTEN_AT, WRITTEN_BY, IS_ASYNC, READ_AT, READ_BY, CLOCK, AGENTS, CELLS = range(
    FIRST_SPECIAL + len(SPECIALS), FIRST_SPECIAL + len(SPECIALS) + 9
)
"""Slots of the tables of the shadow of shared memory."""
BUFFERS = CELLS + 1
SLOTS = BUFFERS + 1
"""The numbers that a function gets, as an array of 64-bit integers."""

DONE, FAILED, RETRY = range(3)
"""How the interpreter ends: it has executed the instruction, cannot, or has learnt what native code lacked."""

Row = tuple[int, int]
"""Width and number of a row."""


class NotLowered(Exception):
    """An instruction that stays with the interpreter."""


def bits_of(kind: str) -> int:
    """Return the width of a scalar type."""
    return 1 if kind == "pred" else int(kind[1:])


def element(kind: str) -> str:
    """Return the LLVM type of one lane."""
    return {"f16": "half", "f32": "float", "f64": "double"}.get(kind, f"i{bits_of(kind)}")


def vector(kind: str, lanes: int = WARP) -> str:
    return f"<{lanes} x {element(kind)}>"


def splat(kind: str, value: int) -> str:
    """Return a constant integer in every lane."""
    bits = bits_of(kind)
    if bits == 1:
        return f"splat (i1 {'true' if value & 1 else 'false'})"
    return f"splat (i{bits} {value % (1 << bits)})"


class WarpCode:
    """Writes one function."""

    def __init__(self, rows: RegisterRows, *, masked: bool, cell_bytes: int) -> None:
        """Begin a function.

        Args:
            rows: the register file.
            masked: it reads the mask of the wave.
            cell_bytes: the size of a cell of the shadow of shared memory; 0 for none.
        """
        self.rows = rows
        self.masked = masked
        self.cell_bytes = cell_bytes
        self.code = Assembly()
        self.guard: str | None = None
        """The lanes that execute the instruction under way; None for all of the loop's."""
        self.lanes = splat("pred", 1)
        """The active lanes of the warp."""
        self.number = 0
        """The place of the instruction in its run."""
        self.functions: dict[str, str] = {}
        """Texts of helper functions by name."""
        self._scratch: dict[tuple[str, int], str] = {}
        self.values: dict[Row, str] = {}
        self.changed: dict[Row, Register] = {}
        self._slots: dict[int, str] = {}
        self.warp = ""

    # --- what the function gets ---

    def slot(self, number: int) -> str:
        """Return a number that the function gets, as i64."""
        if number not in self._slots:
            self._slots[number] = f"%given{number}"
        return self._slots[number]

    def head(self) -> Iterable[str]:
        """Return the lines that read the function's numbers."""
        for number, name in sorted(self._slots.items()):
            yield f"  {name}.at = getelementptr i64, ptr %context, i64 {number}"
            yield f"  {name} = load i64, ptr {name}.at"

    def scratch(self, role: str, count: int) -> str:
        """Return memory of the function for numbers of 64 bits, which instructions share."""
        if (role, count) not in self._scratch:
            self._scratch[role, count] = self.code.stack_slot(f"[{count} x i64], align 64")
        return self._scratch[role, count]

    def helper(self, name: str, text: str) -> str:
        """Add a function to the module; return its name."""
        *declarations, body = text.partition("define ")
        for declaration in declarations[0].splitlines():
            self.code.declarations[declaration.partition("@")[2].partition("(")[0]] = declaration
        self.functions[name] = f"define {body}"
        return name

    def pointer(self, address: str) -> str:
        return self.code.value(f"inttoptr i64 {address} to ptr")

    def offset(self, base: str, offset: str) -> str:
        """Return a pointer `offset` bytes after an address."""
        return self.pointer(self.code.value(f"add i64 {base}, {offset}"))

    # --- lanes ---

    def binary(self, operation: str, kind: str, left: str, right: str) -> str:
        return self.code.value(f"{operation} {vector(kind)} {left}, {right}")

    def select(self, condition: str, kind: str, left: str, right: str) -> str:
        return self.code.value(f"select {vector('pred')} {condition}, {vector(kind)} {left}, {vector(kind)} {right}")

    def compare(self, predicate: str, kind: str, left: str, right: str) -> str:
        operation = "fcmp" if kind[0] == "f" else "icmp"
        return self.code.value(f"{operation} {predicate} {vector(kind)} {left}, {right}")

    def cast(self, operation: str, of: str, value: str, to: str) -> str:
        return self.code.value(f"{operation} {vector(of)} {value} to {vector(to)}")

    def resized(self, value: str, of: str, to: str, *, signed: bool = False) -> str:
        """Return an integer truncated, or extended."""
        have, want = bits_of(of), bits_of(to)
        if have == want:
            return value
        return self.cast("trunc" if want < have else "sext" if signed else "zext", of, value, to)

    def intrinsic(self, name: str, kind: str, *operands: str) -> str:
        """Call an intrinsic whose operands and result have one type."""
        suffix = f"v{WARP}{'f' if kind[0] == 'f' else 'i'}{bits_of(kind)}"
        return self.code.call(vector(kind), f"llvm.{name}.{suffix}", *((vector(kind), value) for value in operands))

    def all_of(self, condition: str) -> str:
        return self.code.call("i1", f"llvm.vector.reduce.and.v{WARP}i1", (vector("pred"), condition))

    def any_of(self, condition: str) -> str:
        return self.code.call("i1", f"llvm.vector.reduce.or.v{WARP}i1", (vector("pred"), condition))

    def uniform(self, value: str, kind: str = "b64") -> str:
        """Return one number in every lane."""
        each = element(kind)
        first = self.code.value(f"insertelement {vector(kind)} poison, {each} {value}, i64 0")
        return self.code.value(
            f"shufflevector {vector(kind)} {first}, {vector(kind)} poison, <{WARP} x i32> zeroinitializer"
        )

    def constants(self, kind: str, values: Sequence[int]) -> str:
        each = element(kind)
        return f"<{', '.join(f'{each} {value}' for value in values)}>"

    def active(self) -> str:
        """Return the lanes that execute the instruction."""
        return self.lanes if self.guard is None else self.guard

    def is_partial(self) -> bool:
        return self.masked or self.guard is not None

    # --- operands ---

    def read(self, operand: Operand, kind: str) -> str:
        """Return an operand as a type, as `RegisterRows.reader` reads it."""
        match operand:
            case Register():
                return self._register(operand, kind)
            case Negated():
                return self.binary("xor", "pred", self._register(operand.register, "pred"), splat("pred", 1))
            case Immediate():
                return self._constant(operand.value, kind)
            case Symbol():
                return self._constant(self.rows.address_of(operand), kind)
            case Special():
                return self._special(operand.name, kind)
            case _:
                raise NotLowered

    def _constant(self, value: int, kind: str) -> str:
        if kind == "pred":
            return splat("pred", int(bool(value)))
        raw = f"b{bits_of(kind)}"
        text = splat(raw, value)
        return text if kind[0] != "f" else self.cast("bitcast", raw, text, kind)

    def _special(self, name: str, kind: str) -> str:
        if name not in SPECIALS or kind[0] == "f":
            raise NotLowered
        base = self.slot(FIRST_SPECIAL + SPECIALS.index(name))
        value = self.code.value(f"load {vector('u32')}, ptr {self.offset(base, self._first_byte(4))}, align 4")
        return self.resized(value, "u32", kind)

    def _first_byte(self, size: int) -> str:
        return self.code.value(f"mul i64 {self.warp}, {WARP * size}")

    def _register(self, register: Register, kind: str) -> str:
        row = self.rows.row(register)
        value = self.value_of(row)
        have = "pred" if row[0] == 1 else f"b{row[0]}"
        if kind == "pred":
            return value if row[0] == 1 else self.compare("ne", have, value, "zeroinitializer")
        raw = f"b{bits_of(kind)}"
        value = self.resized(value, have, raw)
        return self.cast("bitcast", raw, value, kind) if kind[0] == "f" else value

    def value_of(self, row: Row) -> str:
        if row not in self.values:
            self.values[row] = self.loaded(row)
        return self.values[row]

    def _place(self, row: Row) -> str:
        bits, number = row
        size = max(1, bits // 8)
        of_row = self.code.value(f"mul i64 {self.slot(THREADS)}, {number * size}")
        base = self.code.value(f"add i64 {self.slot(FILES[bits])}, {of_row}")
        return self.offset(base, self._first_byte(size))

    def loaded(self, row: Row) -> str:
        kind = f"b{max(8, row[0])}"
        value = self.code.value(f"load {vector(kind)}, ptr {self._place(row)}, align {max(1, row[0] // 8)}")
        return value if row[0] > 1 else self.compare("ne", kind, value, "zeroinitializer")

    def _store_row(self, row: Row) -> None:
        value, kind = self.values[row], f"b{max(8, row[0])}"
        if row[0] == 1:
            value = self.cast("zext", "pred", value, kind)
        self.code.do(f"store {vector(kind)} {value}, ptr {self._place(row)}, align {max(1, row[0] // 8)}")

    def write(self, operand: Operand, value: str, kind: str) -> None:
        """Set a register of the active lanes, as `RegisterRows.writer` does."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register):
            raise NotLowered
        row = self.rows.row(operand)
        raw = kind if kind == "pred" else f"b{bits_of(kind)}"
        if kind[0] == "f":
            value = self.cast("bitcast", kind, value, raw)
        if row[0] == 1:
            value = value if kind == "pred" else self.compare("ne", raw, value, "zeroinitializer")
        else:
            value = self.resized(value, raw, f"b{row[0]}", signed=kind[0] == "s")
        have = "pred" if row[0] == 1 else f"b{row[0]}"
        if self.is_partial():
            value = self.select(self.active(), have, value, self.value_of(row))
        self.values[row] = value
        self.changed[row] = operand

    # --- the slow way ---

    def checkpoint(self) -> str:
        """Begin a block, to which `slow_unless` may return; return its label."""
        label = self.code.fresh("check")
        self.code.jump(label)
        self.code.start(label)
        return label

    def slow_unless(
        self, sure: str, sources: Iterable[Register], results: Iterable[Register], retry: str = ""
    ) -> "_Slow":
        """Let the interpreter execute the instruction for this warp unless an i1 holds; else the body does.

        If the interpreter has only learnt what was missing, the code goes on at the block `retry`.
        """
        rows = [self.rows.row(each) for each in sources], [self.rows.row(each) for each in results]
        return _Slow(self, sure, *rows, retry)

    def flush(self, rows: Iterable[Row]) -> None:
        """Write rows that the body has changed so far."""
        for row in dict.fromkeys(rows):
            self._store_row(row)

    def finish(self, is_live: Callable[[Register], bool]) -> None:
        """Write what is live after the run."""
        for row, register in self.changed.items():
            if is_live(register):
                self._store_row(row)


class _Slow:
    """A branch: the fast way is the body of the `with` statement."""

    def __init__(self, out: WarpCode, sure: str, sources: Sequence[Row], results: Sequence[Row], retry: str) -> None:
        self._out = out
        self._retry = retry
        self._sure = sure
        self._sources = sources
        self._results = list(dict.fromkeys(results))

    def __enter__(self) -> None:
        out, code = self._out, self._out.code
        self._fast, self._slow, self._join = (code.fresh(name) for name in ("fast", "slow", "join"))
        # The old values of results are needed on both ways.
        for row in self._results if out.is_partial() else ():
            out.value_of(row)
        code.do(f"br i1 {self._sure}, label %{self._fast}, label %{self._slow}, !prof !0")
        code.start(self._fast)
        self._before, self._changed = dict(out.values), set(out.changed)

    def __exit__(self, *_: object) -> None:
        out, code = self._out, self._out.code
        values = out.values
        fast = {row: values[row] for row in self._results if row in values}
        ends_at = code.block
        code.jump(self._join)
        code.start(self._slow)
        out.values = dict(self._before)
        out.flush(row for row in (*self._sources, *self._results) if row in self._changed)
        call = out.pointer(out.slot(SLOW))
        ending = code.value(f"call i64 {call}(i64 {out.number}, i64 {out.warp})")
        done = code.fresh("done")
        retry = f" i64 {RETRY}, label %{self._retry}" if self._retry else ""
        code.do(f"switch i64 {ending}, label %failed [ i64 {DONE}, label %{done}{retry} ]")
        code.start(done)
        slow = {row: out.loaded(row) for row in fast}
        slow_ends_at = code.block
        code.jump(self._join)
        code.start(self._join)
        # Values that only the fast way has read are not known after the join.
        out.values = dict(self._before)
        for row, value in fast.items():
            kind = "pred" if row[0] == 1 else f"b{row[0]}"
            out.values[row] = code.value(
                f"phi {vector(kind)} [ {value}, %{ends_at} ], [ {slow[row]}, %{slow_ends_at} ]"
            )
