"""What stands inside TTIR's operations: types, attributes, numbers."""

import re
from functools import lru_cache

from harness.virtual.ttir.ir import Attribute, Type
from harness.virtual.ttir.tokens import Tokens

_SCALAR = re.compile(r"(?:i\d+|f\d+\w*|bf16|tf32|index|none)$")


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """`tensor<32x64x!tt.ptr<f32>>` and its like."""
    if text.startswith("tensor<"):
        inner = text[len("tensor<") : -1].partition(",")[0]
        extents = re.match(r"(?:\d+x)*", inner)
        shape = tuple(int(extent) for extent in extents[0].split("x") if extent) if extents else ()
        element = parse_type(inner[extents.end() if extents else 0 :])
        return Type(element.element, shape, element.pointee)
    if text.startswith("!tt.ptr<"):
        return Type("ptr", (), parse_type(text[len("!tt.ptr<") : -1].partition(",")[0]))
    if text.startswith(("!tt.tensordesc<", "tensordesc<", "<tensor<")) or re.match(r"<\d+x", text):
        inner = text[text.index("<") + 1 : -1]
        return Type("tensordesc", (), parse_type(inner if inner.startswith("tensor<") else f"tensor<{inner}>"))
    return Type(text)


def number(text: str) -> int | float:
    """A numeric attribute: hexadecimal, decimal or floating."""
    if "0x" in text:
        return int(text, 16)
    return float(text) if any(character in text for character in ".eE") else int(text)


_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{2})|(.))")


def string(text: str) -> str:
    r"""What a quoted string says; MLIR writes `\0A` for a line's end and `\22` for a quote."""
    plain = text.removeprefix('"').removesuffix('"')
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], plain)


class Notation(Tokens):
    """Tokens read as types and attributes."""

    def _signature(self) -> tuple[list[Type], list[Type] | None]:
        before = self._types_until_arrow()
        if self._peek()[0] == "arrow" or self._peek()[1] == "to":
            self._next()
            return before, self._type_list()
        return before, None

    def _types_until_arrow(self) -> list[Type]:
        kinds: list[Type] = []
        parenthesised = self._accept("(")
        while self._at_type():
            kinds.append(self._type())
            if not (self._accept(",") or self._accept("*") or self._accept("x")):
                break
        if parenthesised:
            self._expect(")")
        return kinds

    def _type_list(self) -> list[Type]:
        if self._accept("("):
            kinds: list[Type] = []
            while not self._accept(")"):
                kinds.append(self._type())
                self._accept(",")
            return kinds
        kinds = [self._type()]
        while self._peek()[1] == "," and self._peek(1)[0] == "type":
            self._next()
            kinds.append(self._type())
        return kinds

    def _at_type(self) -> bool:
        kind, text = self._peek()
        if kind == "word":
            return bool(_SCALAR.match(text) or text.startswith("tensordesc<"))
        return kind == "type" or text == "<"

    def _type(self) -> Type:
        if self._accept("<"):  # the dialect's name is left out: `<f32>` for `!tt.ptr<f32>`
            inner = ""
            while not self._accept(">"):
                inner += self._next()[1]
            return parse_type(f"<{inner}>")
        return parse_type(self._next()[1])

    def _attributes(self) -> dict[str, Attribute]:
        self._expect("{")
        found: dict[str, Attribute] = {}
        while not self._accept("}"):
            name = self._next()[1].strip('"')
            found[name] = self._attribute_value() if self._accept("=") else True
            self._accept(",")
        return found

    def _attribute_value(self, *, typed: bool = True) -> Attribute:
        kind, text = self._next()
        value: Attribute
        if kind == "number":
            value = number(text)
        elif text in {"true", "false"}:
            value = text == "true"
        elif text == "[":
            parts: list[int] = []
            while not self._accept("]"):
                part_kind, part = self._next()
                if part_kind == "number":
                    parts.append(int(number(part)))
            value = tuple(parts)
        elif text.startswith("array<"):
            value = tuple(int(part) for part in text[len("array<") : -1].partition(":")[2].split(",") if part.strip())
        elif text == "{":  # a nested dictionary: nothing executed is in there
            depth = 1
            while depth:
                depth += {"{": 1, "}": -1}.get(self._next()[1], 0)
            value = "{}"
        else:
            value = text.strip('"')
        if typed and self._accept(":"):
            self._type()
        return value


class ValueScope(Notation):
    """Notation that knows the values which are in sight."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._names: dict[str, int] = {}
        self._types: list[Type] = []
        self._ahead: dict[str, int] = {}

    def _define(self, name: str, kind: Type) -> int:
        if name in self._ahead:
            slot = self._names[name] = self._ahead.pop(name)
            self._types[slot] = kind
            return slot
        slot = len(self._types)
        self._types.append(kind)
        self._names[name] = slot
        return slot

    def _define_results(self, names: list[tuple[str, int]], kinds: tuple[Type, ...]) -> tuple[int, ...]:
        slots: list[int] = []
        remaining = iter(kinds)
        for name, count in names:
            if count == 1:
                slots.append(self._define(name, next(remaining)))
            else:
                slots += [self._define(f"{name}#{index}", next(remaining)) for index in range(count)]
        return tuple(slots)

    def _use(self, name: str) -> int:
        if name in self._ahead:
            return self._ahead[name]
        slot = self._names.get(name)
        if slot is None:
            slot = self._names.get(name.removesuffix("#0"))  # an only result by its number
        if slot is None:  # blocks are not printed in topological order: it may be defined further down
            slot = self._ahead[name] = self._define(name, Type("?"))
        return slot
