"""A writer of LLVM IR as text: one function with its blocks, loops and declarations.

Writing text is several times faster than building llvmlite's objects, and the result can be read.
"""

from collections.abc import Generator
from contextlib import contextmanager

from harness.model.device import Vendor

Count = int | str
"""A number, or the name of an i64 that holds it at run time."""


class Assembly:
    """The body of one function, which computes as a vendor's GPUs do."""

    def __init__(self, vendor: Vendor = Vendor.NVIDIA) -> None:
        self.vendor = vendor
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self._slots: list[str] = []
        self._names = 0
        self.block = "entry"
        """The label of the block that is being written."""
        self._bailout = self.stack_slot("i1")
        self.do(f"store i1 false, ptr {self._bailout}")

    # --- instructions ---

    def fresh(self, hint: str) -> str:
        """A unique name."""
        self._names += 1
        return f"{hint}{self._names}"

    def value(self, instruction: str) -> str:
        """Write an instruction; returns the name of its result."""
        name = self.fresh("%v")
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Write an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def stack_slot(self, kind: str) -> str:
        """Allocate stack space for one value; LLVM promotes it to a register."""
        name = self.fresh("%slot")
        self._slots.append(f"  {name} = alloca {kind}")
        return name

    def call(self, kind: str, name: str, *operands: tuple[str, str]) -> str:
        """Declare and call an LLVM intrinsic or a function of the process; operands are (type, name)."""
        self.declare(kind, name, tuple(operand for operand, _ in operands))
        arguments = ", ".join(f"{operand} {text}" for operand, text in operands)
        if kind == "void":
            self.do(f"call void @{name}({arguments})")
            return ""
        return self.value(f"call {kind} @{name}({arguments})")

    def declare(self, kind: str, name: str, operands: tuple[str, ...]) -> None:
        self.declarations[name] = f"declare {kind} @{name}({', '.join(operands)})"

    # --- bailouts ---

    def request_bailout(self, condition: str) -> None:
        """If the condition holds, leave the launch to the machine at the next `bail_if_requested`.

        Collecting requests keeps the loops over lanes free of branches.
        """
        requested = self.value(f"load i1, ptr {self._bailout}")
        self.do(f"store i1 {self.value(f'or i1 {requested}, {condition}')}, ptr {self._bailout}")

    def bail_if_requested(self, label: str) -> None:
        """Branch to a block if a bailout was requested."""
        continues = self.fresh("sure")
        self.branch(self.value(f"load i1, ptr {self._bailout}"), label, continues)
        self.start(continues)

    # --- blocks ---

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """End the block with an unconditional branch."""
        self.do(f"br label %{label}")

    def branch(self, condition: str, if_true: str, if_false: str) -> None:
        """End the block with a conditional branch."""
        self.do(f"br i1 {condition}, label %{if_true}, label %{if_false}")

    @contextmanager
    def when(self, condition: str) -> Generator[None]:
        """Write the body of a conditional."""
        inside, after = self.fresh("when"), self.fresh("after")
        self.branch(condition, inside, after)
        self.start(inside)
        yield
        self.jump(after)
        self.start(after)

    @contextmanager
    def loop(self, count: Count) -> Generator[str]:
        """Write the body of a loop of `count` trips; yields the trip's number, an i64."""
        if count == 1:
            yield "0"
            return
        head, done = self.fresh("loop"), self.fresh("done")
        if isinstance(count, str):
            is_positive = self.value(f"icmp sgt i64 {count}, 0")
            before = self.fresh("enter")
            self.branch(is_positive, before, done)
            self.start(before)
        predecessor = self.block
        trip, next_trip = self.fresh("%i"), self.fresh("%i")
        self.jump(head)
        self.start(head)
        phi_line = len(self.lines)
        self.lines.append("")  # the phi: its second predecessor is known only after the body
        yield trip
        self.lines[phi_line] = f"  {trip} = phi i64 [ 0, %{predecessor} ], [ {next_trip}, %{self.block} ]"
        self.lines.append(f"  {next_trip} = add nuw nsw i64 {trip}, 1")
        self.branch(self.value(f"icmp slt i64 {next_trip}, {count}"), head, done)
        self.start(done)

    # --- the whole ---

    def text(self, signature: str) -> str:
        """The module's text: declarations and the function."""
        return "\n".join(
            (*self.declarations.values(), f"define {signature} {{", "entry:", *self._slots, *self.lines, "}", "")
        )


# --- integer arithmetic on names, folded for literals ---


def plus(code: Assembly, left: str, right: str) -> str:
    """The sum of two i64."""
    if left == "0":
        return right
    if right == "0":
        return left
    if _is_literal(left) and _is_literal(right):
        return str(int(left) + int(right))
    return code.value(f"add i64 {left}, {right}")


def times(code: Assembly, left: str, factor: int) -> str:
    """A multiple of an i64."""
    if factor == 1:
        return left
    if factor == 0:
        return "0"
    if _is_literal(left):
        return str(int(left) * factor)
    return code.value(f"mul i64 {left}, {factor}")


def _is_literal(name: str) -> bool:
    return not name.startswith("%")
