"""Reads the text of a PTX module, as Triton's compiler writes it.

The text is cut into statements; each becomes one `PtxInstruction`.  Registers and labels of an inner scope `{ … }` get
names of their own.  Calls of functions in the same module are inlined, so a kernel has no call stack.
"""

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count

from harness.engines.ptx.ptx_kernel import (
    Address,
    Immediate,
    Negated,
    Operand,
    Pair,
    PtxInstruction,
    PtxKernel,
    PtxParameter,
    Register,
    RegisterVector,
    Sink,
    Special,
    Symbol,
    Variable,
)
from harness.errors import CannotExecute
from harness.model.run import Source

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SECTION = re.compile(r"^\s*\.section\b", re.MULTILINE)
_STATEMENT = re.compile(
    r"\s*(?:(\.loc\b[^\n]*|\.file\b[^\n]*)|([{}])(?=\s)|([\w$]+):(?!:)|([^;{}\s](?:[^;{}]|\{[^{}]*\})*;))"
)
_ENTRY = re.compile(
    r"(\.visible\s+|\.weak\s+)?\.(entry|func)\b\s*(\([^)]*\)\s*)?([\w$]+)\s*(\(.*?\))?([^{;]*)([{;])", re.DOTALL
)
_VARIABLE = re.compile(
    r"^[ \t]*(?:\.(?:visible|extern|weak|common)\s+)*\.(?P<space>shared|const|global)\s+(?:\.attribute\([^)]*\)\s*)?"
    r"(?:\.align\s+(?P<align>\d+)\s+)?"
    r"\.(?P<kind>\w+)\s+(?P<name>[\w$]+)(?:\[(?P<length>\d*)\])?(?:\s*=\s*(?P<content>\{[^}]*\}|[^;]+))?;",
    re.MULTILINE,
)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_GUARD = re.compile(r"@(!?)([%\w$]+)\s+")
_OPERANDS = re.compile(r"\[[^\]]*\]|\{[^{}]*\}|\([^()]*\)|[^,\[\]{}()]+")
_FLOAT = re.compile(r"0[fFdD]([0-9A-Fa-f]+)$")
_INTEGER = re.compile(r"-?(?:0[xX][0-9A-Fa-f]+|0[bB][01]+|\d+)[uU]?$")
_SPECIAL = re.compile(
    r"%(?:n?tid|n?ctaid|laneid|n?warpid|n?smid|clock|clock64|clock_hi|globaltimer|globaltimer_lo|globaltimer_hi|gridid|"
    r"lanemask_\w+|n?clusterid|cluster_n?cta\w+|is_explicit_cluster|dynamic_smem_size|total_smem_size|"
    r"aggr_smem_size|envreg\d+|reserved_smem_offset_\w+)(?:\.[xyzw])?$"
)
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*);", re.DOTALL)
_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)
_DEEPEST_CALL = 16
ASSERTION = "assertfail"
"""The root of the instruction that stands for a call of CUDA's function for assertions that do not hold."""


def width_of(kind: str) -> int:
    """Return the bits of a type; those of 1 for a predicate, and of all parts of a packed type."""
    if kind == "pred":
        return 1
    element, _, parts = kind.partition("x")
    return int("".join(filter(str.isdigit, element)) or 0) * int(parts or 1)


MakeRegister = Callable[[str, int], Register]
"""Declares a register by name and width."""


@dataclass(slots=True)
class _Scope:
    """The registers and labels that one pair of braces declares."""

    registers: dict[str, Register] = field(default_factory=dict[str, Register])
    labels: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class _Function:
    """A function or entry as text."""

    name: str
    is_entry: bool
    returns: str
    parameters: str
    directives: str
    body: str


@lru_cache(maxsize=64)
def parse(text: str) -> PtxKernel:
    """Return the kernel of a module.

    Raises:
        CannotExecute: the text is no module with one entry, or a statement cannot be read.
    """
    text = _COMMENT.sub("", text)
    if debug := _SECTION.search(text):
        text = text[: debug.start()]
    target = _TARGET.search(text)
    functions = {function.name: function for function in _functions(text)}
    entries = [function for function in functions.values() if function.is_entry]
    if target is None or len(entries) != 1:
        raise CannotExecute(f"a PTX module with {len(entries)} entries")
    return _Reader(text, target[1], functions).kernel(entries[0])


def _functions(text: str) -> Iterator[_Function]:
    position = 0
    while found := _ENTRY.search(text, position):
        position = found.end()
        if found[7] == ";":  # a declaration
            continue
        end = _closing(text, found.end())
        yield _Function(
            found[4], found[2] == "entry", found[3] or "", found[5] or "", found[6], text[found.end() : end]
        )
        position = end


def _closing(text: str, position: int) -> int:
    """Return the index of the brace that closes the one before `position`."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[position:]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return position + brace.start()
    raise CannotExecute("a PTX function without an end")


class _Reader:
    """Reads one module."""

    def __init__(self, text: str, target: str, functions: Mapping[str, _Function]) -> None:
        self._target = target
        self._functions = functions
        self._files = dict(_FILE.findall(text))
        self._numbers = count()
        self._registers: list[Register] = []
        self._instructions: list[PtxInstruction] = []
        self._labels: dict[str, int] = {}
        self._sources: dict[str, Source] = {}
        self._location = ""
        self._variables = dict(_variables(text))
        self._scopes: list[_Scope] = []
        self._local_bytes = 0
        self._label_before = ""
        self._branch_targets: dict[str, list[str]] = {}
        """By label, the targets of indexed branches."""

    def kernel(self, entry: _Function) -> PtxKernel:
        parameters = tuple(_parameters(entry.parameters))
        self._body(entry.body, {}, depth=0)
        threads = re.search(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", entry.directives)
        cluster = re.search(r"\.reqnctapercluster\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", entry.directives)
        return PtxKernel(
            name=entry.name,
            target=self._target,
            parameters=parameters,
            variables=self._variables,
            registers=tuple(self._registers),
            instructions=tuple(self._instructions),
            labels=self._labels,
            threads=_product(threads) if threads else 0,
            cluster=_product(cluster) if cluster else 1,
            sources=self._sources,
            local_bytes=self._local_bytes,
        )

    # --- statements ---

    def _body(self, body: str, renamed: Mapping[str, "_Slots"], depth: int, returns_to: str = "") -> None:
        """Read a function's statements.

        Args:
            body: the text between the function's braces.
            renamed: the registers that stand for parameters of an inlined function.
            depth: how many calls lead here.
            returns_to: the label after an inlined function; empty for the entry.
        """
        outer, self._scopes = self._scopes, [_Scope()]
        parts = list(_statements(body))
        self._declare_labels(parts)
        calls = _Calls(renamed, depth, returns_to)
        for index, (kind, text) in enumerate(parts):
            match kind:
                case "open":
                    self._scopes.append(_Scope())
                    self._declare_labels(parts[index + 1 :])
                case "close":
                    self._scopes.pop()
                case "label":
                    self._labels[self._label(text)] = len(self._instructions)
                    self._label_before = text
                case "line":
                    self._place(text)
                case _:
                    self._statement(text, calls)
        self._scopes = outer

    def _declare_labels(self, parts: list[tuple[str, str]]) -> None:
        """Give the labels of a scope names of their own, before branches refer to them.

        The scope begins with these statements.
        """
        depth = 0
        for kind, text in parts:
            if kind == "open":
                depth += 1
            elif kind == "close":
                depth -= 1
                if depth < 0:
                    return
            elif kind == "label" and not depth:
                self._scopes[-1].labels[text] = f"{text}#{next(self._numbers)}"

    def _place(self, text: str) -> None:
        if line := _LOC.match(text):
            file, number, column = line.groups()
            if number == "0":
                return
            self._location = f"{file}:{number}:{column}"
            if self._location not in self._sources:
                self._sources[self._location] = Source(file=self._files.get(file, ""), line=int(number))

    def _statement(self, text: str, calls: "_Calls") -> None:
        text = " ".join(text[:-1].split())
        if text.startswith(".reg"):
            self._declare_registers(f"{text};")
        elif text.startswith((".param", ".local")):
            self._declare_memory(text, calls)
        elif text.startswith(".branchtargets"):
            self._branch_targets[self._label_before] = _parts(text.removeprefix(".branchtargets"))
        elif text.startswith("."):
            return
        else:
            self._instruction(text, calls)

    def _declare_registers(self, text: str) -> None:
        found = _REGISTERS.match(text)
        if found is None:
            raise CannotExecute(f"the PTX statement {text[:60]!r}")
        bits = width_of(found[1])
        for part in found[2].split(","):
            name = part.strip()
            if many := re.match(r"([%\w$]+)<(\d+)>$", name):
                for number in range(int(many[2])):
                    self._declare_register(f"{many[1]}{number}", bits)
            else:
                self._declare_register(name, bits)

    def _declare_register(self, name: str, bits: int) -> None:
        register = Register(f"{name}#{next(self._numbers)}", bits)
        self._scopes[-1].registers[name] = register
        self._registers.append(register)

    def _declare_memory(self, text: str, calls: "_Calls") -> None:
        """Declare the parameter of a call, as a register, or a thread's local memory."""
        if found := re.match(r"\.local(?: \.align (\d+))? \.(\w+) ([\w$]+)\[(\d+)\]$", text):
            align, size = int(found[1] or 1), int(found[4]) * max(1, width_of(found[2]) // 8)
            self._local_bytes = -(-self._local_bytes // align) * align
            self._variables[found[3]] = Variable(
                name=found[3], space="local", align=align, size_bytes=size, offset=self._local_bytes
            )
            self._local_bytes += size
            return
        found = re.match(r"\.param(?: \.align \d+)? \.(\w+) ([\w$]+)(?:\[(\d+)\])?$", text)
        if found is None:
            raise CannotExecute(f"the PTX statement {text[:60]!r}")
        calls.declare(found[2], found[1], int(found[3] or 0), self._new_register)

    def _new_register(self, name: str, bits: int) -> Register:
        register = Register(f"{name}#{next(self._numbers)}", bits)
        self._registers.append(register)
        return register

    def _instruction(self, text: str, calls: "_Calls") -> None:
        guard: Register | Negated | None = None
        if found := _GUARD.match(text):
            register = self._register(found[2])
            guard = Negated(register) if found[1] else register
            text = text[found.end() :]
        opcode, _, rest = text.partition(" ")
        words = tuple(opcode.split("."))
        match words[0]:
            case "call":
                self._call(rest, calls, guard)
                return
            case "brx":
                self._indexed_branch(rest, calls, guard)
                return
            case "ret" if calls.returns_to:
                target: tuple[Operand, ...] = (Symbol(calls.returns_to),)
                self._append(("bra", "uni"), target, guard)
                return
            case _:
                pass
        operands = tuple(self._operand(part, calls) for part in _parts(rest))
        if words[:2] in {("ld", "param"), ("st", "param")} and (moved := calls.move(words, operands)):
            self._append(("mov", words[-1]), moved, guard)
            return
        self._append(words, operands, guard)

    def _append(self, words: tuple[str, ...], operands: tuple[Operand, ...], guard: Register | Negated | None) -> None:
        self._instructions.append(PtxInstruction(words, operands, guard, self._location))

    def _indexed_branch(self, rest: str, calls: "_Calls", guard: Register | Negated | None) -> None:
        """Write `brx.idx`, which leads to one of several labels, as a branch to each."""
        number, targets = _parts(rest)
        if guard is not None or targets not in self._branch_targets:
            raise CannotExecute("a PTX branch to targets that are not known")
        index = self._operand(number, calls)
        for at, target in enumerate(self._branch_targets[targets]):
            is_taken = self._new_register(targets, 1)
            self._append(("setp", "eq", "u32"), (is_taken, index, Immediate(at)), None)
            self._append(("bra",), (Symbol(self._label(target)),), is_taken)

    # --- calls ---

    def _call(self, rest: str, calls: "_Calls", guard: Register | Negated | None) -> None:
        """Inline a call: `(results), function, (arguments)`."""
        parts = list(_parts(rest))
        results = parts.pop(0) if parts[0].startswith("(") else "()"
        name = parts[0]
        arguments = next((part for part in parts[1:] if part.startswith("(")), "()")
        if name == "vprintf":  # nothing is printed
            return
        if name == "__assertfail":
            self._append((ASSERTION,), (), guard)
            return
        function = self._functions.get(name)
        if function is None or guard is not None or calls.depth >= _DEEPEST_CALL:
            raise CannotExecute(f"a call of the PTX function {name}")
        passed = [part.strip() for part in arguments.strip("()").split(",") if part.strip()]
        taken = [part.strip() for part in results.strip("()").split(",") if part.strip()]
        renamed = calls.renamed(function, passed, taken)
        label = f"after {name}#{next(self._numbers)}"
        self._body(function.body, renamed, calls.depth + 1, label)
        self._labels[label] = len(self._instructions)

    # --- operands ---

    def _operand(self, text: str, calls: "_Calls") -> Operand:
        text = text.strip()
        if text.startswith("["):
            return self._address(text[1:-1].strip(), calls)
        if text.startswith("{"):
            return RegisterVector(tuple(self._operand(part, calls) for part in _parts(text[1:-1])))
        if "|" in text:
            first, second = text.split("|")
            return Pair(self._operand(first, calls), self._operand(second, calls))
        if text == "_":
            return Sink()
        if text.startswith("!"):
            return Negated(self._register(text[1:].strip()))
        return self._simple(text, calls)

    def _simple(self, text: str, calls: "_Calls") -> Operand:
        for scope in reversed(self._scopes):
            if text in scope.registers:
                return scope.registers[text]
        if _INTEGER.match(text):
            return Immediate(int(text.rstrip("uU"), 0))
        if found := _FLOAT.match(text):
            return Immediate(int(found[1], 16))
        if re.match(r"-?\d+\.\d*(?:[eE][+-]?\d+)?$", text):
            return Immediate(struct.unpack("<I", struct.pack("<f", float(text)))[0])
        if _SPECIAL.match(text):
            return Special(text)
        if text == "WARP_SZ":
            return Immediate(32)
        if re.match(r"[\w$]+$", text):
            return calls.symbol(text) or Symbol(self._label(text))
        raise CannotExecute(f"the PTX operand {text!r}")

    def _address(self, text: str, calls: "_Calls") -> Address:
        base, *coordinates = _parts(text)
        found = re.match(r"(.+?)\s*(?:\+\s*(-?\w+))?$", base.strip())
        assert found is not None
        operand = self._operand(found[1], calls)
        flat = [part for vector in coordinates for part in _parts(vector.strip().strip("{}"))]
        return Address(operand, int(found[2] or "0", 0), tuple(self._operand(part, calls) for part in flat))

    def _register(self, name: str) -> Register:
        for scope in reversed(self._scopes):
            if name in scope.registers:
                return scope.registers[name]
        raise CannotExecute(f"the PTX register {name}, which is not declared")

    def _label(self, name: str) -> str:
        for scope in reversed(self._scopes):
            if name in scope.labels:
                return scope.labels[name]
        return name


@dataclass(slots=True)
class _Calls:
    """What an inlined function's parameters are, and the parameters of calls that its body prepares."""

    parameters: Mapping[str, "_Slots"]
    depth: int
    returns_to: str
    _declared: dict[str, dict[int, Register]] = field(default_factory=dict[str, "dict[int, Register]"])
    _make: MakeRegister | None = None

    def declare(self, name: str, kind: str, length: int, make: MakeRegister) -> None:
        """Declare the parameter of a call; a byte array becomes registers at their offsets as they are used."""
        self._make = make
        self._declared[name] = {} if length else {0: make(name, max(32, width_of(kind)))}

    def symbol(self, name: str) -> Operand | None:
        return Symbol(name) if name in self._declared or name in self.parameters else None

    def renamed(self, function: _Function, passed: list[str], taken: list[str]) -> Mapping[str, "_Slots"]:
        """Return what each parameter of a function stands for in this call."""
        names = [parameter.name for parameter in _parameters(function.parameters)]
        results = [parameter.name for parameter in _parameters(function.returns)]
        if len(names) != len(passed) or len(results) != len(taken):
            raise CannotExecute(f"a call of the PTX function {function.name} with {len(passed)} arguments")
        return {
            inner: _Slots(self._declared[outer], self._make)
            for inner, outer in zip([*names, *results], [*passed, *taken], strict=True)
        }

    def move(self, words: tuple[str, ...], operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """Return the operands of a `mov` that stands for an access to a parameter of a call; none for the entry's."""
        at = 1 if words[0] == "ld" else 0
        address, other = operands[at], operands[1 - at]
        assert isinstance(address, Address)
        if not isinstance(address.base, Symbol):
            return ()
        slots = self._declared.get(address.base.name)
        if slots is None:
            inner = self.parameters.get(address.base.name)
            if inner is None:
                return ()
            slots, make = inner.registers, inner.make
        else:
            make = self._make
        if isinstance(other, RegisterVector):
            raise CannotExecute("a vector as the argument of a PTX call")
        if address.offset not in slots:
            assert make is not None
            slots[address.offset] = make(address.base.name, max(16, width_of(words[-1])))
        register = slots[address.offset]
        return (other, register) if words[0] == "ld" else (register, other)


@dataclass(frozen=True, slots=True, eq=False)
class _Slots:
    """The registers that hold one parameter of a call, by offset."""

    registers: dict[int, Register]
    make: MakeRegister | None


def _statements(body: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each statement."""
    position = 0
    while found := _STATEMENT.match(body, position):
        position = found.end()
        line, brace, label, text = found.groups()
        if line:
            yield "line", line
        elif brace:
            yield ("open" if brace == "{" else "close"), brace
        elif label:
            yield "label", label
        else:
            yield "statement", text
    if rest := body[position:].strip():
        raise CannotExecute(f"PTX that cannot be read: {rest[:60]!r}")


def _parts(text: str) -> list[str]:
    """Split operands at the commas outside brackets."""
    parts: list[str] = []
    depth = begin = 0
    for at, sign in enumerate(text):
        if sign in "[{(":
            depth += 1
        elif sign in "]})":
            depth -= 1
        elif sign == "," and not depth:
            parts.append(text[begin:at].strip())
            begin = at + 1
    parts.append(text[begin:].strip())
    return [part for part in parts if part]


def _parameters(text: str) -> Iterator[PtxParameter]:
    offset = 0
    for part in text.strip().strip("()").split(","):
        words = part.split()
        if not words:
            continue
        found = re.match(r"([\w$]+)(?:\[(\d+)\])?$", words[-1])
        kind = next((word for word in words if re.match(r"\.[busf]\d+$", word)), None)
        if found is None or kind is None:
            raise CannotExecute(f"the PTX parameter {part.strip()!r}")
        size = width_of(kind) // 8
        whole = size * int(found[2]) if found[2] else size
        align = int(words[words.index(".align") + 1]) if words[1] == ".align" else size
        offset = -(-offset // align) * align
        yield PtxParameter(name=found[1], offset=offset, size_bytes=whole, is_aggregate=found[2] is not None)
        offset += whole


def _variables(text: str) -> Iterator[tuple[str, Variable]]:
    for match in _VARIABLE.finditer(text):
        size = width_of(match["kind"]) // 8
        length = match["length"]
        content = b""
        if match["content"]:
            numbers = re.findall(r"-?\w+", match["content"])
            content = b"".join((_constant(number) % (1 << 8 * size)).to_bytes(size, "little") for number in numbers)
        whole = size if length is None else size * int(length or 0)
        yield (
            match["name"],
            Variable(
                name=match["name"],
                space=match["space"],
                align=int(match["align"] or size),
                size_bytes=whole,
                content=content,
            ),
        )


def _constant(text: str) -> int:
    if found := _FLOAT.match(text):
        return int(found[1], 16)
    if not _INTEGER.match(text):
        raise CannotExecute(f"a PTX variable that holds {text}")
    return int(text.rstrip("uU"), 0)


def _product(found: re.Match[str]) -> int:
    result = 1
    for number in found.groups():
        result *= int(number or 1)
    return result
