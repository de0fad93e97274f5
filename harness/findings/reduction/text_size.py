"""The size of a text, and cheap checks that it can run, before the expensive test."""

import ast
import builtins
import symtable
import warnings
from collections.abc import Iterator
from functools import lru_cache

from harness.search.problem import Size
from harness.syntax_trees import module_of

LINE = 120
"""The most columns of a reduced line."""


def size(text: str) -> Size:
    """Return the sort key of reductions: number of syntax nodes, magnitude of numbers, length of the text.

    Raises:
        SyntaxError: the text is not Python.
    """
    nodes = list(ast.walk(_parsed(text)))
    parts = sum(len(node.elts) for node in nodes if isinstance(node, ast.Tuple))  # so that `a, b = x, y` is no gain
    return (
        len(nodes) + parts,
        sum(_largeness(node.value) for node in nodes if isinstance(node, ast.Constant)),
        len(text),
    )


def syntax(text: str) -> str:
    """Return the syntax of a text without comments and layout."""
    return ast.dump(_parsed(text))


def lines(text: str) -> int:
    """Return the number of lines, blank ones included."""
    return len(text.splitlines())


def widest(text: str) -> int:
    """Return the columns of the widest line."""
    return max(map(len, text.splitlines()), default=0)


def unknown_names(text: str) -> frozenset[str]:
    """Return the undefined names, and names that `+=` uses but nothing sets."""
    module = symtable.symtable(text, "reduction", "exec")
    known = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    known |= {inner.get_name() for inner in module.get_children()} | set(dir(builtins)) | {"__name__", "__file__"}
    return (frozenset(_globals(module)) - known) | frozenset(_only_added_to(_parsed(text)))


@lru_cache(maxsize=2)
def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings(action="ignore"):  # the test decides about `0[1]` and "\\d"
        tree = module_of(text)
        compile(tree, "reduction", "exec", dont_inherit=True)  # a `break` outside loops parses
    return tree


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    is_module = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (is_module or symbol.is_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals(inner)


def _only_added_to(tree: ast.Module) -> Iterator[str]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            inside = list(ast.walk(function))
            added = {
                node.target.id
                for node in inside
                if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
            }
            targets = {id(node.target) for node in inside if isinstance(node, ast.AugAssign)}
            names = (node for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
            parameters = {node.arg for node in inside if isinstance(node, ast.arg)}
            yield from added - parameters - {name.id for name in names if id(name) not in targets}


def _largeness(value: object) -> float:
    """Return the magnitude of a number; fractions count by digits, so 0.0 and 1.0 are smaller than 1e-5."""
    match value:
        case bool():
            return 0.0
        case int():
            return float(min(abs(value), 2**62))
        case float():
            return abs(value) if value in {0.0, 1.0} else float(len(repr(value)))
        case _:
            return 0.0
