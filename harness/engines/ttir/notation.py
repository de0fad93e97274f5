"""The notation inside TTIR's operations: types, attributes, numbers, and result types that the text leaves out."""

import re
from functools import lru_cache

from harness.engines.ttir.ir import Attribute, Type
from harness.engines.ttir.tokens import Tokens

_SCALAR = re.compile(r"(?:i\d+|f\d+\w*|bf16|tf32|index|none)$")


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """Return the type of a text such as `tensor<32x64x!tt.ptr<f32>>`."""
    if text.startswith("tensor<"):
        inner = text[len("tensor<") : -1].partition(",")[0]
        extents = re.match(r"(?:\d+x)*", inner)
        shape = tuple(int(extent) for extent in extents[0].split("x") if extent) if extents else ()
        element = parse_type(inner[extents.end() if extents else 0 :])
        return Type(element.element, shape, element.pointee)
    if text.startswith("!tt.ptr<"):
        return Type("ptr", (), parse_type(text[len("!tt.ptr<") : -1].partition(",")[0]))
    if text.startswith("!ttg.memdesc<"):
        return Type("memdesc", (), parse_type(f"tensor<{text[len('!ttg.memdesc<') : -1]}>"))
    if text.startswith(("!tt.tensordesc<", "tensordesc<", "<tensor<")) or re.match(r"<\d+x", text):
        inner = text[text.index("<") + 1 : -1]
        return Type("tensordesc", (), parse_type(inner if inner.startswith("tensor<") else f"tensor<{inner}>"))
    return Type(text)


def parse_number(text: str) -> int | float:
    """Return a numeric attribute: hexadecimal, decimal or floating."""
    if "0x" in text:
        return int(text, 16)
    return float(text) if any(character in text for character in ".eE") else int(text)


_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{2})|(.))")


def parse_string(text: str) -> str:
    r"""Return the content of a quoted string; MLIR writes `\0A` for a newline and `\22` for a quote."""
    plain = text.removeprefix('"').removesuffix('"')
    return _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)) if escape[1] else escape[2], plain)


WITHOUT_RESULTS = frozenset(
    {
        "llvm.intr.assume",
        "scf.condition",
        "scf.yield",
        "tt.assert",
        "tt.atomic_store",
        "tt.descriptor_reduce",
        "tt.descriptor_scatter",
        "tt.descriptor_store",
        "tt.map_elementwise.return",
        "tt.reduce.return",
        "tt.return",
        "tt.scan.return",
        "tt.store",
    }
)


def implied_results(name: str, kinds: list[Type]) -> tuple[Type, ...]:
    """Return the result types of an operation whose text names only its operands' types."""
    if not kinds or name in WITHOUT_RESULTS:
        return ()
    first, last = kinds[0], kinds[-1]
    if name in {"arith.cmpi", "arith.cmpf"}:
        return (first.with_element("i1"),)
    if name == "tt.unsplat":
        return (Type(first.element, (), first.pointee),)
    if name == "tt.load" and first.pointee is not None:
        return (Type(first.pointee.element, first.shape, first.pointee.pointee),)
    return (first,) if name == "tt.addptr" else (last,)


class Notation(Tokens):
    """Reads tokens as types and attributes."""

    def _signature(self) -> tuple[list[Type], list[Type] | None]:
        """Read `A, B -> C` or `A to B`; the second list is None if the text names the operands' types only."""
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
        if self._accept("<"):  # without the dialect's name: `<f32>` for `!tt.ptr<f32>`
            inner = ""
            while not self._accept(">"):
                inner += self._next()[1]
            return parse_type(f"<{inner}>")
        return parse_type(self._next()[1])

    def _optional_attributes(self) -> dict[str, Attribute]:
        return self._attributes() if self._peek()[1] == "{" else {}

    def _attributes(self) -> dict[str, Attribute]:
        self._expect("{")
        attributes: dict[str, Attribute] = {}
        while not self._accept("}"):
            name = self._next()[1].strip('"')
            attributes[name] = self._attribute_value() if self._accept("=") else True
            self._accept(",")
        return attributes

    def _attribute_value(self, *, typed: bool = True) -> Attribute:
        kind, text = self._next()
        value: Attribute
        if kind == "number":
            value = parse_number(text)
        elif text in {"true", "false"}:
            value = text == "true"
        elif text == "[":
            parts: list[int] = []
            while not self._accept("]"):
                part_kind, part = self._next()
                if part_kind == "number":
                    parts.append(int(parse_number(part)))
            value = tuple(parts)
        elif text.startswith("array<"):
            value = tuple(int(part) for part in text[len("array<") : -1].partition(":")[2].split(",") if part.strip())
        elif text == "{":  # a nested dictionary, which never affects execution
            depth = 1
            while depth:
                depth += {"{": 1, "}": -1}.get(self._next()[1], 0)
            value = "{}"
        else:
            value = text.strip('"')
        if typed and self._accept(":"):
            self._type()
        return value
