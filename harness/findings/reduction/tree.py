"""A source text as a syntax tree with parents, roles of names, and edits that can be combined.

Nodes are libcst's: immutable, and compared by identity.  An edit belongs to the tree that it was made for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Any, TypeGuard, TypeVar, cast

import libcst as cst

Node = TypeVar("Node", bound=cst.CSTNode)
Replacement = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[Any]
Change = Callable[[Any], Replacement]
"""The replacement of a node, given the node after the changes inside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Changes to nodes of one tree that belong together."""

    changes: Mapping[cst.CSTNode, Change]


def removal(*nodes: cst.CSTNode) -> Edit:
    """Return the edit that removes nodes from their lists."""
    return Edit(changes=dict.fromkeys(nodes, remove))


def replacement(node: cst.CSTNode, change: Change) -> Edit:
    """Return the edit of a single node."""
    return Edit(changes={node: change})


def remove(_: cst.CSTNode) -> Replacement:
    """Remove the node."""
    return cst.RemoveFromParent()


class NameRole(Enum):
    """The use of a name."""

    LOAD = auto()
    STORE = auto()
    PARAMETER = auto()
    DEFINITION = auto()
    """A function, a class or an imported module."""
    OTHER = auto()
    """An attribute or the keyword of an argument."""


Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
_LAYOUT = (
    cst.BaseParenthesizableWhitespace,
    cst.TrailingWhitespace,
    cst.EmptyLine,
    cst.Newline,
    cst.Comma,
    cst.LeftParen,
    cst.RightParen,
)


class Tree:
    """A parsed source text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.module = cst.parse_module(text)
        collector = _Collector()
        self.module.visit(collector)
        self.nodes = tuple(collector.parents)
        """In the order of the text, without layout nodes."""
        self._parents = collector.parents
        self._names: dict[tuple[cst.CSTNode, NameRole], dict[str, list[cst.Name]]] = {}

    def parent(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the parent; only the module has none."""
        parent = self._parents[node]
        assert parent is not None, "the module has no parent"
        return parent

    def around(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the ancestors, innermost first."""
        parent = self._parents[node]
        while parent is not None:
            yield parent
            parent = self._parents[parent]

    def inside(self, node: cst.CSTNode, kind: type[Node]) -> list[Node]:
        """Return the descendants of a kind, itself included, in the order of the text."""
        return [descendant for descendant in self._under.get(node, ()) if isinstance(descendant, kind)]

    def all(self, kind: type[Node]) -> list[Node]:
        """Return all nodes of a kind, in the order of the text."""
        return [node for node in self.nodes if isinstance(node, kind)]

    def code(self, node: cst.CSTNode) -> str:
        return self.module.code_for_node(node)

    def statement(self, node: cst.CSTNode) -> Statement:
        """Return the innermost statement around a node, itself included."""
        for ancestor in (node, *self.around(node)):
            if is_statement(ancestor):
                return ancestor
        raise AssertionError("a node outside all statements")

    def scope(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Module:
        """Return the module-level function around a node, or the module."""
        return next(
            (
                function
                for function in self.around(node)
                if isinstance(function, cst.FunctionDef) and function in self.functions
            ),
            self.module,
        )

    def depth(self, statement: Statement) -> int:
        """Return the number of blocks around a statement."""
        return sum(isinstance(node, cst.BaseSuite) for node in self.around(statement))

    @cached_property
    def functions(self) -> tuple[cst.FunctionDef, ...]:
        """The module-level functions."""
        return tuple(node for node in self.module.body if isinstance(node, cst.FunctionDef))

    @cached_property
    def imported(self) -> frozenset[str]:
        """The names that imports bind."""
        return frozenset(name for alias in self.all(cst.ImportAlias) for name in bound_names(alias))

    def role(self, name: cst.Name) -> NameRole:
        """The use of a name."""
        child: cst.CSTNode = name
        parent = self.parent(name)
        while isinstance(parent, cst.Element | cst.Tuple | cst.List):
            child, parent = parent, self.parent(parent)
        is_target = getattr(parent, "target", None) is child
        match parent:
            case cst.Attribute(attr=part) | cst.Arg(keyword=part) if part is child:
                return NameRole.OTHER
            case cst.Param(name=part) if part is child:
                return NameRole.PARAMETER
            case cst.FunctionDef(name=part) | cst.ClassDef(name=part) if part is child:
                return NameRole.DEFINITION
            case cst.ImportAlias() | cst.AsName() | cst.ImportFrom():
                return NameRole.DEFINITION
            case cst.AssignTarget():
                return NameRole.STORE
            case cst.AnnAssign() | cst.AugAssign() | cst.For() | cst.CompFor() | cst.NamedExpr() if is_target:
                return NameRole.STORE
            case _:
                return NameRole.LOAD

    def names(self, inside: cst.CSTNode, role: NameRole) -> Mapping[str, list[cst.Name]]:
        """Return the uses of each name inside a node in this role, in the order of the text."""
        names = self._names.get((inside, role))
        if names is None:
            names = self._names[inside, role] = {}
            for name in self.inside(inside, cst.Name):
                if self.role(name) is role:
                    names.setdefault(name.value, []).append(name)
        return names

    def edited(self, edits: Iterable[Edit]) -> str | None:
        """Return the text after edits, or None if it is invalid; the first of two changes to one node counts."""
        changes: dict[cst.CSTNode, Change] = {}
        for edit in edits:
            for node, change in edit.changes.items():
                changes.setdefault(node, change)
        try:
            return self.changed(self.module, changes).code
        except (cst.CSTValidationError, TypeError):  # libcst raises these for a node in a place that cannot hold it
            return None

    def changed(self, node: Node, changes: Mapping[cst.CSTNode, Change]) -> Node:
        """Return a node after changes inside it."""
        touched = {node, *changes, *(holder for changed in changes for holder in self.around(changed))}
        return cast("Node", node.visit(_Editor(changes, touched)))

    @cached_property
    def _under(self) -> Mapping[cst.CSTNode, list[cst.CSTNode]]:
        under: dict[cst.CSTNode, list[cst.CSTNode]] = {}
        for node in self.nodes:
            for holder in (node, *self.around(node)):
                under.setdefault(holder, []).append(node)
        return under


def is_statement(node: cst.CSTNode) -> TypeGuard[Statement]:
    """Return True for a simple line or a compound statement."""
    return isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement)


def bound_names(alias: cst.ImportAlias) -> tuple[str, ...]:
    """Return the name that an import binds: `tl` for `import triton.language as tl`, `triton` without `as`."""
    name = alias.asname.name if alias.asname else alias.name
    while isinstance(name, cst.Attribute):
        name = name.value
    return (name.value,) if isinstance(name, cst.Name) else ()


class _Collector(cst.CSTVisitor):
    """Collects each node with its parent."""

    def __init__(self) -> None:
        super().__init__()
        self.parents: dict[cst.CSTNode, cst.CSTNode | None] = {}
        self._holders: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _LAYOUT):
            return False
        self.parents[node] = self._holders[-1] if self._holders else None
        self._holders.append(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if not isinstance(original_node, _LAYOUT):
            self._holders.pop()


class _Editor(cst.CSTTransformer):
    """Applies changes, and visits only nodes around them."""

    def __init__(self, changes: Mapping[cst.CSTNode, Change], touched: set[cst.CSTNode]) -> None:
        super().__init__()
        self._changes = changes
        self._touched = touched

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node in self._touched and self._changes.get(node) is not remove

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
        change = self._changes.get(original_node)
        return updated_node if change is None else change(updated_node)
