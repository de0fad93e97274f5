"""LLVM IR as text: one function being written, with its blocks, loops and declarations.

Text is several times quicker to make than objects, and what LLVM parses is what a person can read.
"""

from collections.abc import Generator
from contextlib import contextmanager

Count = int | str
"""A number known now, or the name of an i64 that holds it."""


class Assembly:
    """The body of one function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self._slots: list[str] = []
        self._names = 0
        self.block = "entry"
        """The block that is being written."""
        self._doubt = self.slot("i1")
        self.do(f"store i1 false, ptr {self._doubt}")

    # --- instructions ---

    def fresh(self, hint: str) -> str:
        """A name that nothing else has."""
        self._names += 1
        return f"{hint}{self._names}"

    def value(self, instruction: str) -> str:
        """Write an instruction; returns the name of what it makes."""
        name = self.fresh("%v")
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Write an instruction that makes nothing."""
        self.lines.append(f"  {instruction}")

    def slot(self, kind: str) -> str:
        """A place in the stack frame for one scalar; LLVM turns it into a register."""
        name = self.fresh("%slot")
        self._slots.append(f"  {name} = alloca {kind}")
        return name

    def call(self, kind: str, name: str, *operands: tuple[str, str]) -> str:
        """Call a function of LLVM's or of the process, declared on the way; operands are (type, name)."""
        self.declare(kind, name, tuple(operand for operand, _ in operands))
        given = ", ".join(f"{operand} {text}" for operand, text in operands)
        if kind == "void":
            self.do(f"call void @{name}({given})")
            return ""
        return self.value(f"call {kind} @{name}({given})")

    def declare(self, kind: str, name: str, operands: tuple[str, ...]) -> None:
        """Name a function that is defined elsewhere."""
        self.declarations[name] = f"declare {kind} @{name}({', '.join(operands)})"

    # --- doubts ---

    def doubt(self, condition: str) -> None:
        """Where the condition holds, the launch is left to the machine: this program has met what is no plain case."""
        held = self.value(f"load i1, ptr {self._doubt}")
        self.do(f"store i1 {self.value(f'or i1 {held}, {condition}')}, ptr {self._doubt}")

    def leave_in_doubt(self, label: str) -> None:
        """Go to a block at once where there is a doubt."""
        on = self.fresh("sure")
        self.branch(self.value(f"load i1, ptr {self._doubt}"), label, on)
        self.start(on)

    # --- blocks ---

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """End a block."""
        self.do(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End a block both ways."""
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")

    @contextmanager
    def when(self, condition: str) -> Generator[None]:
        """What is written inside runs only where the condition holds."""
        inside, after = self.fresh("when"), self.fresh("after")
        self.branch(condition, inside, after)
        self.start(inside)
        yield
        self.jump(after)
        self.start(after)

    @contextmanager
    def loop(self, count: Count) -> Generator[str]:
        """What is written inside runs `count` times; gives the trip's number, an i64."""
        if count == 1:
            yield "0"
            return
        head, done = self.fresh("loop"), self.fresh("done")
        if isinstance(count, str):
            some = self.value(f"icmp sgt i64 {count}, 0")
            before = self.fresh("enter")
            self.branch(some, before, done)
            self.start(before)
        entered = self.block
        trip, following = self.fresh("%i"), self.fresh("%i")
        self.jump(head)
        self.start(head)
        at = len(self.lines)
        self.lines.append("")
        yield trip
        self.lines[at] = f"  {trip} = phi i64 [ 0, %{entered} ], [ {following}, %{self.block} ]"
        self.lines.append(f"  {following} = add nuw nsw i64 {trip}, 1")
        self.branch(self.value(f"icmp slt i64 {following}, {count}"), head, done)
        self.start(done)

    # --- the whole ---

    def text(self, signature: str) -> str:
        """The module: declarations and the function, whose blocks begin with `entry`."""
        return "\n".join(
            (*self.declarations.values(), f"define {signature} {{", "entry:", *self._slots, *self.lines, "}", "")
        )


# --- small integer arithmetic on names, folded where the numbers are known ---


def plus(code: Assembly, left: str, right: str) -> str:
    """The sum of two i64."""
    if left == "0":
        return right
    if right == "0":
        return left
    if _known(left) and _known(right):
        return str(int(left) + int(right))
    return code.value(f"add i64 {left}, {right}")


def times(code: Assembly, left: str, factor: int) -> str:
    """A multiple of an i64."""
    if factor == 1:
        return left
    if factor == 0:
        return "0"
    if _known(left):
        return str(int(left) * factor)
    return code.value(f"mul i64 {left}, {factor}")


def _known(name: str) -> bool:
    return not name.startswith("%")
