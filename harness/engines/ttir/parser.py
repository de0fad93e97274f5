"""The TTIR parser: recursive descent over modules, functions, regions and operations.

MLIR's Python bindings do not serve: in Triton 3.6 they show no integer attributes, successors or predicates.  Most
operations share one form (keywords, operands, attributes, types), which `_generic` reads, unknown operations included.
Operations with regions, successors or a form of their own have readers in `_READERS`.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from harness.engines.ttir.ir import (
    UNREAD,
    Attribute,
    Block,
    Function,
    Module,
    Operation,
    Parameter,
    Successor,
    TtirRegion,
    Type,
    mark_last_uses,
)
from harness.engines.ttir.notation import implied_results
from harness.engines.ttir.scope import ValueScope
from harness.engines.ttir.tokens import END, LINE
from harness.errors import CannotExecute

_VALUE = re.compile(r"(%[\w$.-]+(?:\#\d+)?)")
_LOCATION_LINE = re.compile(r"^(#loc\d*) = (loc\(.*\))$", re.MULTILINE)
_KERNEL_LINE = re.compile(r"^ *tt\.func public .*\{$", re.MULTILINE)
"""The first line of a kernel: its name and its parameters."""
_FUNCTION_END = re.compile(r"^ *\} (loc\(#\w*\))$", re.MULTILINE)
_PARAMETER = re.compile(r"(%[\w$.-]+): ")
_FOREIGN_TEXT = (ValueError, LookupError, StopIteration, RecursionError)
"""The exceptions of int, zip and next on text that is no TTIR."""


def parse(text: str) -> Module:
    """Return the module of a `.ttir` text.

    Raises:
        CannotExecute: the text is not TTIR as this parser knows it; names the line.
    """
    locations = dict(_LOCATION_LINE.findall(text))
    lines = ["" if line.startswith("#") else line for line in text.splitlines()]
    parser = _Parser("\n".join(lines))
    try:
        functions = parser.module()
    except _FOREIGN_TEXT as error:
        raise parser.cannot_read("something else") from error
    return Module(functions={function.name: function for function in functions}, locations=locations)


def parse_signature(text: str) -> Module:
    """Return the module of a text as its kernel alone, with the operation `UNREAD` as its body.

    Raises:
        CannotExecute: the text has no kernel, or its signature cannot be read.
    """
    header = _KERNEL_LINE.search(text)
    if header is None:
        raise CannotExecute("a text without a kernel")
    end = _FUNCTION_END.search(text, header.end())
    arguments = ", ".join(_PARAMETER.findall(header[0]))
    location = "" if end is None else end[1]
    locations = "\n".join(match[0] for match in _LOCATION_LINE.finditer(text))
    return parse(f"{header[0]}\n{UNREAD} {arguments}\n}} {location}\n{locations}")


class _Parser(ValueScope):
    """One pass over the tokens of one module."""

    # --- module and functions ---

    def module(self) -> list[Function]:
        functions: list[Function] = []
        while self._peek() != END:
            if self._peek()[1] == "tt.func":
                functions.append(self._function())
            else:
                self._next()  # `module {`, its attributes and its closing brace never affect execution
        if not functions:
            raise self.cannot_read("a tt.func")
        return functions

    def _function(self) -> Function:
        self._names, self._types = {}, []
        self._expect("tt.func")
        public = self._accept("public")
        if not public:
            self._accept("private")
        name = self._next()[1].lstrip("@").strip('"')
        parameters = tuple(self._parameters())
        results = self._optional_results()
        if self._accept("attributes"):
            self._attributes()
        body = self._region()
        location = self._next()[1] if self._peek()[0] == "loc" else ""
        if self._forward:
            raise self.cannot_read(f"a definition of {', '.join(self._forward)}")
        mark_last_uses(body)
        self._settle_operand_types(body)
        return Function(name, parameters, results, body, len(self._types), location, public)

    def _parameters(self) -> Iterator[Parameter]:
        self._expect("(")
        while not self._accept(")"):
            name = self._next()[1]
            self._expect(":")
            kind = self._type()
            divisibility = self._optional_attributes().get("tt.divisibility", 1)
            if self._peek()[0] == "loc":
                self._next()
            yield Parameter(name[1:], self._define(name, kind), kind, int(str(divisibility)))
            self._accept(",")

    def _optional_results(self) -> tuple[Type, ...]:
        if self._peek()[0] != "arrow":
            return ()
        self._next()
        return tuple(self._type_list())

    def _settle_operand_types(self, region: TtirRegion) -> None:
        """Set the operands' types.  This comes last, since values may be used before their definition."""
        for block in region.blocks:
            for operation in block.operations:
                operation.operand_types = tuple(self._types[slot] for slot in operation.operands)
                for inner in operation.regions:
                    self._settle_operand_types(inner)

    # --- regions and blocks ---

    def _region(self, arguments: list[tuple[str, Type]] | None = None) -> TtirRegion:
        self._expect("{")
        outer = dict(self._names)
        slots = tuple(self._define(name, kind) for name, kind in arguments or [])
        region = TtirRegion([Block("", slots)])
        while not self._accept("}"):
            if self._peek()[0] == "label":
                block = self._block_header()
                if region.blocks[-1].operations or region.blocks[-1].label:
                    region.blocks.append(block)
                else:  # the entry block has a label
                    region.blocks[-1] = block
            else:
                region.blocks[-1].operations.append(self._operation())
        self._names = outer
        return region

    def _block_header(self) -> Block:
        label = self._next()[1]
        slots: list[int] = []
        if self._accept("("):
            while not self._accept(")"):
                name = self._next()[1]
                self._expect(":")
                slots.append(self._define(name, self._type()))
                if self._peek()[0] == "loc":
                    self._next()
                self._accept(",")
        self._expect(":")
        return Block(label, tuple(slots))

    # --- operations ---

    def _operation(self) -> Operation:
        if self._peek()[0] == LINE:
            return self._line()
        results: list[tuple[str, int]] = []
        while self._peek()[0] == "value":
            name, _, count = self._next()[1].partition(":")
            results.append((name, int(count or 1)))
            self._accept(",")
        if results:
            self._expect("=")
        kind, name = self._next()
        if kind not in {"word", "string"}:
            self._position -= 1
            raise self.cannot_read("an operation")
        name = name.strip('"')
        reader = _READERS.get(name)
        operation = reader(self, name) if reader else self._quoted(name) if kind == "string" else self._generic(name)
        if self._peek()[0] == "loc":
            operation.location = self._next()[1]
        operation.results = self._define_results(results, operation.result_types)
        return operation

    def _line(self) -> Operation:
        """Read an operation on a line of its own, from a template of lines that differ in names of values alone."""
        parts = _VALUE.split(self._tokens[self._position][1])
        try:
            template = _Parser._template("%".join(parts[::2]))
        except CannotExecute:
            self._expand_line()  # read it again token by token, for the reason and the place
            return self._operation()
        names = parts[1::2]
        location = self._tokens[self._position + 1][1]
        self._position += 2
        operation = Operation(
            name=template.name,
            operands=tuple([self._use(names[number]) for number in template.operands]),
            result_types=template.result_types,
            attributes=template.attributes,
            keywords=template.keywords,
            location=location,
        )
        if template.results:
            operation.results = (self._define(names[0], operation.result_types[0]),)
        return operation

    @staticmethod
    @lru_cache(maxsize=1 << 14)
    def _template(line: str) -> Operation:
        """Return the operation of a line in which every value is called `%`.

        Its operands are numbers of values, counted from left to right.
        """
        first, *parts = line.split("%")
        parser = _Parser(first + "".join(f"%{number}{part}" for number, part in enumerate(parts)))
        try:
            operation = parser._operation()
        except _FOREIGN_TEXT as error:
            raise parser.cannot_read("something else") from error
        numbers = {parser._names[f"%{number}"]: number for number in range(len(parts))}
        operation.operands = tuple(numbers[slot] for slot in operation.operands)
        return operation

    def _generic(self, name: str) -> Operation:
        """Read keywords, operands and attributes in any order, then `: types` with or without an arrow."""
        operands: list[int] = []
        keywords: list[str] = []
        attributes: dict[str, Attribute] = {}
        before: list[Type] = []
        after: list[Type] | None = None
        while True:
            kind, text = self._peek()
            if kind == "value" and self._peek(1)[1] != "=":
                self._next()
                operands.append(self._use(text))
            elif text == ":":
                self._next()
                before, after = self._signature()
                break
            elif kind == "arrow":  # an operation without operands has neither their types nor the colon
                self._next()
                after = self._type_list()
                break
            elif text == "{":
                attributes |= self._attributes()
            elif kind in {"loc", "label", "value", "end"} or text == "}":
                break
            elif kind in {"word", "string", "dense", "number", "symbol"}:
                self._next()
                if self._accept("="):
                    attributes[text] = self._attribute_value(typed=False)  # a colon begins the operation's types
                else:
                    keywords.append(text)
            else:
                self._next()  # commas, brackets and parentheses only separate
        result_types = tuple(after) if after is not None else implied_results(name, before)
        if name == "tt.split":  # the text names the type of its two results once
            result_types *= 2
        return Operation(
            name, tuple(operands), result_types=result_types, attributes=attributes, keywords=tuple(keywords)
        )

    def _quoted(self, name: str) -> Operation:
        """Read MLIR's generic form: `"tt.reduce"(%x) <{axis = 1 : i32}> ({ … }) : (A) -> B`."""
        self._expect("(")
        operands = self._operands_until(")")
        attributes: dict[str, Attribute] = {}
        if self._accept("<"):
            attributes |= self._attributes()
            self._expect(">")
        regions: list[TtirRegion] = []
        if self._accept("("):
            while not self._accept(")"):
                regions.append(self._region())
                self._accept(",")
        attributes |= self._optional_attributes()
        self._expect(":")
        _, after = self._signature()
        return Operation(
            name, tuple(operands), result_types=tuple(after or ()), attributes=attributes, regions=tuple(regions)
        )

    # --- operations with regions ---

    def for_loop(self, name: str) -> Operation:
        """Read `unsigned %i = %lower to %upper step %step iter_args(%a = %b) -> (types) : type { … }`."""
        unsigned = self._accept("unsigned")
        induction = self._next()[1]
        self._expect("=")
        lower = self._operand()
        self._expect("to")
        upper = self._operand()
        self._expect("step")
        step = self._operand()
        carried: list[str] = []
        initial: list[int] = []
        results: tuple[Type, ...] = ()
        if self._accept("iter_args"):
            self._expect("(")
            carried, initial = self._initial_values()
            self._expect("->")
            results = tuple(self._type_list())
        kind = self._type() if self._accept(":") else Type("index")
        body = self._region([(induction, kind), *zip(carried, results, strict=True)])
        return Operation(
            name,
            (lower, upper, step, *initial),
            result_types=results,
            attributes={**self._optional_attributes(), "unsigned": unsigned},
            regions=(body,),
        )

    def while_loop(self, name: str) -> Operation:
        """Read `(%a = %b) : (types) -> (types) { … } do { … }`."""
        carried, initial = self._initial_values() if self._accept("(") else ([], [])
        before_types, after_types = self._signature() if self._accept(":") else ([], [])
        before = self._region(list(zip(carried, before_types, strict=True)))
        self._expect("do")
        body = self._region()
        return Operation(
            name,
            tuple(initial),
            result_types=tuple(after_types or ()),
            attributes=self._attributes() if self._accept("attributes") else {},
            regions=(before, body),
        )

    def _initial_values(self) -> tuple[list[str], list[int]]:
        """Read `%a = %b, %c = %d)`: names of carried values, and slots of their initial values."""
        carried: list[str] = []
        initial: list[int] = []
        while not self._accept(")"):
            carried.append(self._next()[1])
            self._expect("=")
            initial.append(self._operand())
            self._accept(",")
        return carried, initial

    def if_else(self, name: str) -> Operation:
        """Read `%condition -> (types) { … } else { … }`."""
        condition = self._operand()
        results = self._optional_results()
        regions = [self._region()]
        if self._accept("else"):
            regions.append(self._region())
        attributes = self._optional_attributes()
        return Operation(name, (condition,), result_types=results, attributes=attributes, regions=tuple(regions))

    # --- operations with successors ---

    def branch(self, name: str) -> Operation:
        """Read `^block(%values : types)`, after a condition and with two blocks for `cf.cond_br`."""
        operands: list[int] = []
        if name == "cf.cond_br":
            operands.append(self._operand())
            self._expect(",")
        successors = [self._successor()]
        while self._accept(","):
            successors.append(self._successor())
        self._optional_attributes()
        return Operation(name, tuple(operands), successors=tuple(successors))

    def _successor(self) -> Successor:
        label = self._next()[1]
        arguments: list[int] = []
        if self._accept("("):
            arguments = self._operands()
            if self._accept(":"):
                self._types_until_arrow()
            self._expect(")")
        return Successor(label, tuple(arguments))

    # --- operations with a form of their own ---

    def constant(self, name: str) -> Operation:
        """Read `{attributes} value : type`; `true` and `false` have no type."""
        attributes = self._optional_attributes()
        text = self._next()[1]
        kind = self._type() if self._accept(":") else Type("i1")
        return Operation(name, result_types=(kind,), attributes={**attributes, "value": text})

    def print_out(self, name: str) -> Operation:
        """Read `"text" {…} : %values : types`."""
        keywords = (self._next()[1],)
        attributes = self._attributes()
        operands: list[int] = []
        if self._accept(":"):
            operands = self._operands()
            self._expect(":")
            self._types_until_arrow()
        return Operation(name, tuple(operands), attributes=attributes, keywords=keywords)

    def dot_scaled(self, name: str) -> Operation:
        """Read `%lhs scale %s, %rhs scale %t, %acc …`; the attribute `scales` has the positions of the scales."""
        operands: list[int] = []
        scales: list[int] = []
        for _ in ("lhs", "rhs"):
            operands.append(self._operand())
            if self._accept("scale"):
                scales.append(len(operands))
                operands.append(self._operand())
            self._expect(",")
        operation = self._generic(name)
        operation.operands = (*operands, *operation.operands)
        operation.attributes = {**operation.attributes, "scales": tuple(scales)}
        return operation

    def call(self, name: str) -> Operation:
        """Read `@callee(%values) : types`; the attribute `callee` has the function's name."""
        callee = self._next()[1].lstrip("@").strip('"')
        operation = self._generic(name)
        operation.attributes = {**operation.attributes, "callee": callee}
        return operation


_READERS: dict[str, Callable[[_Parser, str], Operation]] = {
    "scf.for": _Parser.for_loop,
    "scf.while": _Parser.while_loop,
    "scf.if": _Parser.if_else,
    "cf.br": _Parser.branch,
    "cf.cond_br": _Parser.branch,
    "arith.constant": _Parser.constant,
    "tt.print": _Parser.print_out,
    "tt.dot_scaled": _Parser.dot_scaled,
    "tt.call": _Parser.call,
}
