"""TTIR text to `ir`: a recursive-descent parser of modules, functions, regions and operations.

MLIR's Python bindings do not serve (in Triton 3.6 they show no integer attributes, successors or predicates), so the
text is read.  Most operations share one shape (keywords, operands, attributes, types), which `_generic` reads, unknown
operations included; those with regions or successors have readers of their own in `_READERS`.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from harness.errors import CannotExecute
from harness.virtual.ttir.ir import (
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
from harness.virtual.ttir.notation import ValueScope
from harness.virtual.ttir.tokens import END, LINE

_VALUE = re.compile(r"(%[\w$.-]+(?:\#\d+)?)")
_LOCATION_LINE = re.compile(r"^(#loc\d*) = (loc\(.*\))$", re.MULTILINE)


def parse(text: str) -> Module:
    """The module that a `.ttir` text describes.

    Raises:
        CannotExecute: the text is not TTIR as this parser knows it; names the line.
    """
    locations = dict(_LOCATION_LINE.findall(text))
    lines = ["" if line.startswith("#") else line for line in text.splitlines()]
    parser = _Parser("\n".join(lines))
    try:
        functions = parser.module()
    except (ValueError, LookupError, StopIteration, RecursionError) as error:  # how int, zip and next meet foreign text
        raise parser.cannot_read("something else") from error
    return Module(functions={function.name: function for function in functions}, locations=locations)


class _Parser(ValueScope):
    """One pass over the tokens of one module."""

    # --- module and functions ---

    def module(self) -> list[Function]:
        functions: list[Function] = []
        while self._peek() != END:
            if self._peek()[1] == "tt.func":
                functions.append(self._function())
            else:
                self._next()  # `module {`, its attributes and closing brace carry nothing that is executed
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
        results: tuple[Type, ...] = ()
        if self._peek()[0] == "arrow":
            self._next()
            results = tuple(self._type_list())
        if self._accept("attributes"):
            self._attributes()
        body = self._region()
        location = self._next()[1] if self._peek()[0] == "loc" else ""
        if self._ahead:
            raise self.cannot_read(f"a definition of {', '.join(self._ahead)}")
        mark_last_uses(body)
        self._settle_operand_types(body)
        return Function(name, parameters, results, body, len(self._types), location, public)

    def _settle_operand_types(self, region: TtirRegion) -> None:
        for block in region.blocks:
            for operation in block.operations:
                operation.operand_types = tuple(self._types[slot] for slot in operation.operands)
                for inner in operation.regions:
                    self._settle_operand_types(inner)

    def _parameters(self) -> Iterator[Parameter]:
        self._expect("(")
        while not self._accept(")"):
            name = self._next()[1]
            self._expect(":")
            kind = self._type()
            if self._peek()[1] == "{":
                self._attributes()
            if self._peek()[0] == "loc":
                self._next()
            yield Parameter(name[1:], self._define(name, kind), kind)
            self._accept(",")

    # --- regions, blocks, operations ---

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
                else:
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
            self._at -= 1
            raise self.cannot_read("an operation")
        name = name.strip('"')
        reader = _READERS.get(name)
        made = reader(self, name) if reader else self._quoted(name) if kind == "string" else self._generic(name)
        if self._peek()[0] == "loc":
            made.location = self._next()[1]
        made.results = self._define_results(results, made.result_types)
        return made

    def _line(self) -> Operation:
        """An operation on a line of its own: the values' names tell it from others that are read already."""
        parts = _VALUE.split(self._tokens[self._at][1])
        try:
            like = _Parser._like("%".join(parts[::2]))
        except CannotExecute:
            self._spell_out()  # for the reason and the place
            return self._operation()
        names = parts[1::2]
        operands = tuple([self._use(names[place]) for place in like.operands])
        location = self._tokens[self._at + 1][1]
        self._at += 2
        made = Operation(like.name, operands, (), (), like.result_types, like.attributes, like.words, (), (), location)
        if like.results:
            made.results = (self._define(names[0], made.result_types[0]),)
        return made

    @staticmethod
    @lru_cache(maxsize=1 << 14)
    def _like(line: str) -> Operation:
        """The operation of a line in which every value is called `%`; its operands are counted from left to right."""
        first, *others = line.split("%")
        parser = _Parser(first + "".join(f"%{place}{part}" for place, part in enumerate(others)))
        try:
            made = parser._operation()
        except (ValueError, LookupError, StopIteration, RecursionError) as error:
            raise parser.cannot_read("something else") from error
        places = {parser._names[f"%{place}"]: place for place in range(len(others))}
        made.operands = tuple(places[slot] for slot in made.operands)
        return made

    def _generic(self, name: str) -> Operation:
        """Keywords, operands and attributes in any order, then `: types` with or without an arrow."""
        operands: list[int] = []
        words: list[str] = []
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
            elif kind == "arrow":  # without operands, their types and the colon are left out
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
                    words.append(text)
            else:
                self._next()  # commas, brackets and parentheses only separate
        result_types = tuple(after) if after is not None else implied_results(name, before)
        if name == "tt.split":  # names the type of both its results once
            result_types *= 2
        return Operation(name, tuple(operands), (), (), result_types, attributes, tuple(words), (), (), "")

    def _quoted(self, name: str) -> Operation:
        """MLIR's generic form: `"tt.reduce"(%x) <{axis = 1 : i32}> ({ … }) : (A) -> B`."""
        self._expect("(")
        operands: list[int] = []
        while not self._accept(")"):
            operands.append(self._use(self._next()[1]))
            self._accept(",")
        attributes: dict[str, Attribute] = {}
        if self._accept("<"):
            attributes |= self._attributes()
            self._expect(">")
        regions: list[TtirRegion] = []
        if self._accept("("):
            while not self._accept(")"):
                regions.append(self._region())
                self._accept(",")
        if self._peek()[1] == "{":
            attributes |= self._attributes()
        self._expect(":")
        _, after = self._signature()
        return Operation(name, tuple(operands), (), (), tuple(after or ()), attributes, (), tuple(regions), (), "")

    # --- operations with regions or successors ---

    def constant(self, name: str) -> Operation:
        attributes: dict[str, Attribute] = {}
        if self._peek()[1] == "{":
            attributes |= self._attributes()
        text = self._next()[1]
        kind = self._type() if self._accept(":") else Type("i1")  # `true` and `false` stand alone
        return Operation(name, (), (), (), (kind,), {**attributes, "value": text}, (), (), (), "")

    def for_loop(self, name: str) -> Operation:
        unsigned = self._accept("unsigned")
        induction = self._next()[1]
        self._expect("=")
        lower = self._use(self._next()[1])
        self._expect("to")
        upper = self._use(self._next()[1])
        self._expect("step")
        step = self._use(self._next()[1])
        carried: list[str] = []
        initial: list[int] = []
        results: tuple[Type, ...] = ()
        if self._accept("iter_args"):
            self._expect("(")
            while not self._accept(")"):
                carried.append(self._next()[1])
                self._expect("=")
                initial.append(self._use(self._next()[1]))
                self._accept(",")
            self._expect("->")
            results = tuple(self._type_list())
        kind = Type("index")
        if self._accept(":"):
            kind = self._type()
        body = self._region([(induction, kind), *zip(carried, results, strict=True)])
        attributes = self._attributes() if self._peek()[1] == "{" else {}
        operands = (lower, upper, step, *initial)
        return Operation(name, operands, (), (), results, {**attributes, "unsigned": unsigned}, (), (body,), (), "")

    def if_else(self, name: str) -> Operation:
        condition = self._use(self._next()[1])
        results: tuple[Type, ...] = ()
        if self._peek()[0] == "arrow":
            self._next()
            results = tuple(self._type_list())
        regions = [self._region()]
        if self._accept("else"):
            regions.append(self._region())
        attributes = self._attributes() if self._peek()[1] == "{" else {}
        return Operation(name, (condition,), (), (), results, attributes, (), tuple(regions), (), "")

    def while_loop(self, name: str) -> Operation:
        carried: list[str] = []
        initial: list[int] = []
        if self._accept("("):
            while not self._accept(")"):
                carried.append(self._next()[1])
                self._expect("=")
                initial.append(self._use(self._next()[1]))
                self._accept(",")
        before_types, after_types = [], []
        if self._accept(":"):
            before_types, after = self._signature()
            after_types = after or []
        before = self._region(list(zip(carried, before_types, strict=True)))
        self._expect("do")
        body = self._region()
        attributes = self._attributes() if self._accept("attributes") else {}
        return Operation(name, tuple(initial), (), (), tuple(after_types), attributes, (), (before, body), (), "")

    def branch(self, name: str) -> Operation:
        operands: list[int] = []
        if name == "cf.cond_br":
            operands.append(self._use(self._next()[1]))
            self._expect(",")
        successors = [self._successor()]
        while self._accept(","):
            successors.append(self._successor())
        if self._peek()[1] == "{":
            self._attributes()
        return Operation(name, tuple(operands), (), (), (), {}, (), (), tuple(successors), "")

    def _successor(self) -> Successor:
        label = self._next()[1]
        arguments: list[int] = []
        if self._accept("("):
            while self._peek()[0] == "value":
                arguments.append(self._use(self._next()[1]))
                self._accept(",")
            if self._accept(":"):
                self._types_until_arrow()
            self._expect(")")
        return Successor(label, tuple(arguments))

    def print_out(self, name: str) -> Operation:
        """`tt.print "text" {…} : %values : types`."""
        words = (self._next()[1],)
        attributes = self._attributes()
        operands: list[int] = []
        if self._accept(":"):
            while self._peek()[0] == "value":
                operands.append(self._use(self._next()[1]))
                self._accept(",")
            self._expect(":")
            self._types_until_arrow()
        return Operation(name, tuple(operands), (), (), (), attributes, words, (), (), "")

    def dot_scaled(self, name: str) -> Operation:
        """`%lhs scale %s, %rhs scale %t, %acc …`: the attribute `scales` says which operands are scales."""
        operands: list[int] = []
        scales: list[int] = []
        for _ in ("lhs", "rhs"):
            operands.append(self._use(self._next()[1]))
            if self._accept("scale"):
                scales.append(len(operands))
                operands.append(self._use(self._next()[1]))
            self._expect(",")
        made = self._generic(name)
        made.operands = (*operands, *made.operands)
        made.attributes = {**made.attributes, "scales": tuple(scales)}
        return made

    def call(self, name: str) -> Operation:
        callee = self._next()[1].lstrip("@").strip('"')
        made = self._generic(name)
        made.attributes = {**made.attributes, "callee": callee}
        return made


_READERS: dict[str, Callable[[_Parser, str], Operation]] = {
    "arith.constant": _Parser.constant,
    "scf.for": _Parser.for_loop,
    "scf.if": _Parser.if_else,
    "scf.while": _Parser.while_loop,
    "cf.br": _Parser.branch,
    "cf.cond_br": _Parser.branch,
    "tt.call": _Parser.call,
    "tt.dot_scaled": _Parser.dot_scaled,
    "tt.print": _Parser.print_out,
}


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
    """The result types of an operation whose text names only its operands' types."""
    if not kinds:
        return ()
    first, last = kinds[0], kinds[-1]
    if name in WITHOUT_RESULTS:
        return ()
    if name in {"arith.cmpi", "arith.cmpf"}:
        return (first.of("i1"),)
    if name == "tt.load" and first.pointee is not None:
        return (Type(first.pointee.element, first.shape, first.pointee.pointee),)
    return (first,) if name == "tt.addptr" else (last,)
