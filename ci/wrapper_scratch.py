"""Reads the C++ wrapper of Inductor: which grid a launch function launches, and how much scratch memory it allocates.

The sizes are evaluated with the rules of C++, overflow of 32-bit types included.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_FUNCTION = re.compile(
    r"^static (?:inline|__attribute__\(\(noinline\)\)) void call_(?P<kernel>\w+)\((?P<parameters>.*?)^\)\{"
    r"(?P<body>.*?)^\}",
    re.MULTILINE | re.DOTALL,
)
_GRID = re.compile(r"uint32_t grid_([012]) = (.+?);")
_CHOSEN_GRID = re.compile(r"case (\d+): grid_0 = (.+?); grid_1 = (.+?); grid_2 = (.+?); break;")
_SIZE = re.compile(r"int64_t (global_scratch\w*?)_(?:size\[\] = \{(.+)\}|numel = (.+));")
_ALLOCATION = r"(?:aoti_torch_empty_strided\(\s*1, {0}_size,|allocate_scratch_tensor<\w+>\(\s*{0}_numel,)"
_SUFFIXED = re.compile(r"\b(\d+)LL?\b")
_TYPES = {"int": (32, True), "int32_t": (32, True), "uint32_t": (32, False), "int64_t": (64, True)}


class UnknownForm(Exception):
    """The wrapper is not written in a form that this file reads."""


@dataclass(frozen=True, slots=True)
class Integer:
    """A C++ integer."""

    value: int
    bits: int = 64
    is_signed: bool = True

    def to(self, bits: int, is_signed: bool) -> "Integer":  # noqa: FBT001 - a pair of `_TYPES`
        wrapped = self.value % 2**bits
        return Integer(wrapped - 2**bits if is_signed and wrapped >= 2 ** (bits - 1) else wrapped, bits, is_signed)


@dataclass(frozen=True, slots=True)
class LaunchFunction:
    """A function of the wrapper that launches one kernel."""

    kernel: str
    parameters: tuple[str, ...]
    grids: Mapping[int, tuple[str, str, str]]
    """Expressions of the grid, by the index of the autotune config; only 0 if the code does not ask for the index."""
    scratch: str
    """The expression of the bytes that it allocates."""

    def names(self, arguments: Mapping[str, str], outside: Mapping[str, Integer]) -> dict[str, Integer]:
        """Return the values of the parameters that decide the grid, from the expressions at the call."""
        used = set(re.findall(r"\w+", " ".join(text for grid in self.grids.values() for text in grid)))
        return {name: evaluate(text, outside) for name, text in arguments.items() if name in used}

    def launch(self, names: Mapping[str, Integer], config: int) -> tuple[tuple[int, int, int], int]:
        """Return the grid and the bytes of scratch memory."""
        if not (expressions := self.grids.get(config)):
            raise UnknownForm(f"{self.kernel} has no grid for config {config}")
        x, y, z = (evaluate(text, names).to(32, is_signed=False) for text in expressions)
        inside = {**names, "grid_0": x, "grid_1": y, "grid_2": z}
        return (x.value, y.value, z.value), evaluate(self.scratch, inside).to(64, is_signed=True).value


def launch_functions(wrapper: str) -> dict[str, LaunchFunction]:
    """Return the launch functions that allocate scratch memory, by kernel.

    Raises:
        UnknownForm: a function launches no grid or allocates no scratch memory in a known form.
    """
    found = (
        _launch_function(match["kernel"], match["parameters"], match["body"]) for match in _FUNCTION.finditer(wrapper)
    )
    return {function.kernel: function for function in found if function}


def allocated_bytes(wrapper: str, kernel: str, *, grid: tuple[int, int, int], scratch_bytes: int) -> int:
    """Return the bytes that a wrapper allocates for one launch.

    Args:
        wrapper: its C++ code.
        kernel: its name in Python.
        grid: that of the launch.
        scratch_bytes: those of one program, by its build.

    Raises:
        UnknownForm: the code is not in a known form.
    """
    functions = [found for name, found in launch_functions(wrapper).items() if name.rpartition("_")[0] == kernel]
    if len(functions) != 1:
        raise UnknownForm(f"{len(functions)} functions launch {kernel} with scratch memory")
    (function,) = functions
    names = {f"grid_{axis}": Integer(size, 32, is_signed=False) for axis, size in enumerate(grid)}
    names[f"{function.kernel}_result.global_scratch"] = Integer(scratch_bytes, 32)
    return evaluate(function.scratch, names).value


def launch_arguments(wrapper: str, function: LaunchFunction) -> dict[str, str]:
    """Return the expressions with which the wrapper calls a launch function, by parameter."""
    called = [
        list(_split(wrapper[match.end() :]))
        for match in re.finditer(rf"^ +call_{function.kernel}\(", wrapper, re.MULTILINE)
    ]
    if len(called) != 1:
        raise UnknownForm(f"the wrapper calls {function.kernel} {len(called)} times")
    return dict(zip(function.parameters, called[0], strict=False))


def _launch_function(kernel: str, parameters: str, body: str) -> LaunchFunction | None:
    sizes = [(name, array or number) for name, array, number in _SIZE.findall(body)]
    if not sizes:
        if re.search(r"CUdeviceptr global_scratch\w* = 0;", body):
            return None  # the build needs none
        raise UnknownForm(f"the launch of {kernel} declares no scratch memory")
    allocated = [size for name, size in sizes if re.search(_ALLOCATION.format(name), body)]
    if len(allocated) != 1:
        raise UnknownForm(f"the launch of {kernel} allocates scratch memory {len(allocated)} times")
    chosen = {int(config): (x, y, z) for config, x, y, z in _CHOSEN_GRID.findall(body)}
    fixed = tuple(text for _, text in sorted(_GRID.findall(body)))
    if not chosen and len(fixed) != 3:
        raise UnknownForm(f"the launch of {kernel} has no grid")
    return LaunchFunction(
        kernel=kernel,
        parameters=tuple(text.partition("=")[0].split()[-1] for text in _split(parameters + ")")),
        grids=chosen or {0: (fixed[0], fixed[1], fixed[2])},
        scratch=allocated[0],
    )


def _split(text: str) -> Iterator[str]:
    """Yield the arguments before the closing bracket of a call."""
    depth, start = 0, 0
    for place, character in enumerate(text):
        if depth == 0 and character in ",)":
            yield text[start:place].strip()
            start = place + 1
            if character == ")":
                return
        depth += (character in "([{<") - (character in ")]}>")


def evaluate(expression: str, names: Mapping[str, Integer]) -> Integer:
    """Return the value of a C++ expression.

    Raises:
        UnknownForm: the expression has other parts than numbers, known names, casts and arithmetic.
    """
    text = re.sub(r"static_cast<(\w+)>", r"\1", expression.replace("c10::", ""))
    try:
        return _value(ast.parse(_SUFFIXED.sub(r"int64_t(\1)", text).strip(), mode="eval").body, names)
    except (SyntaxError, KeyError, ZeroDivisionError) as error:
        raise UnknownForm(f"cannot evaluate `{expression}`") from error


def _value(node: ast.expr, names: Mapping[str, Integer]) -> Integer:
    match node:
        case ast.Constant(value=int(number)):
            return Integer(number, *_TYPES["int" if number < 2**31 else "int64_t"])
        case ast.Name() | ast.Attribute():
            return names[ast.unparse(node)]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _combined(ast.Sub(), Integer(0, *_TYPES["int"]), _value(operand, names))
        case ast.BinOp(left=left, op=operator, right=right):
            return _combined(operator, _value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id="div_floor_integer"), args=[left, right]):
            return Integer(_value(left, names).value // _value(right, names).value)
        case ast.Call(func=ast.Name(id=name), args=[operand]):
            return _value(operand, names).to(*_TYPES[name])
        case _:
            raise KeyError(ast.unparse(node))


def _combined(operator: ast.operator, left: Integer, right: Integer) -> Integer:
    bits = max(left.bits, right.bits)
    is_signed = all(part.is_signed for part in (left, right) if part.bits == bits)
    a, b = left.to(bits, is_signed).value, right.to(bits, is_signed).value
    match operator:
        case ast.Add():
            result = a + b
        case ast.Sub():
            result = a - b
        case ast.Mult():
            result = a * b
        case ast.Div():
            result = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        case _:
            raise KeyError(operator)
    return Integer(result).to(bits, is_signed)
