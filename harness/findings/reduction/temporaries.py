"""Passes that inline variables."""

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from harness.findings.reduction.constants import defining_line
from harness.findings.reduction.tree import Change, Edit, NameRole, Statement, Tree, remove
from harness.findings.reduction.values import is_literal, put_in

MERGED_LINE = 100
"""The most columns of a line after a value is inlined: names make longer expressions readable."""


def inline_plain(tree: Tree) -> Sequence[Edit]:
    """Inline a variable that is only a literal or another variable."""
    inlining = _Inlining(tree)
    plain = (local for local in _variables(tree) if is_literal(local.value) or isinstance(local.value, cst.Name))
    return [inlining.of(variable) for variable in plain]


def merge_single_uses(tree: Tree) -> Sequence[Edit]:
    """Inline a variable that is used once, if the line does not get too long."""
    inlining = _Inlining(tree)
    edits: list[Edit] = []
    widths: dict[Statement, int] = {}
    for variable in _variables(tree):
        if len(variable.uses) == 1 and not _is_launched_with(tree, variable.uses[0]):
            holder = tree.statement(variable.uses[0])
            merged = widths.get(holder, _width(tree, holder)) + len(tree.code(inlining.value(variable)))
            if merged <= MERGED_LINE:
                widths[holder] = merged
                edits.append(inlining.of(variable))
    return edits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variable:
    """A variable that is assigned once, with its value and uses."""

    line: cst.SimpleStatementLine
    value: cst.BaseExpression
    uses: tuple[cst.Name, ...]


def _variables(tree: Tree) -> list[_Variable]:
    variables: list[_Variable] = []
    for scope in (*tree.functions, tree.module):
        loads, parameters = tree.names(scope, NameRole.LOAD), tree.names(scope, NameRole.PARAMETER)
        for name, stores in tree.names(scope, NameRole.STORE).items():
            line = defining_line(tree, stores[0])
            value = _assigned(line)
            is_only = len(stores) == 1 and name not in parameters
            if is_only and line is not None and value is not None and tree.scope(line) is scope:
                variables.append(_Variable(line=line, value=value, uses=tuple(loads.get(name, ()))))
    return variables


def _assigned(line: cst.SimpleStatementLine | None) -> cst.BaseExpression | None:
    match line:
        case cst.SimpleStatementLine(body=[cst.Assign(value=value) | cst.AnnAssign(value=value)]):
            return value
        case _:
            return None


class _Inlining:
    """Makes edits in the order of the text, so that a value contains the values inlined into it before."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._changes: dict[cst.CSTNode, Change] = {}

    def value(self, variable: _Variable) -> cst.BaseExpression:
        """Return the value of the variable, with earlier values inlined."""
        inside: dict[cst.CSTNode, Change] = {
            node: change for node in self._tree.inside(variable.value, cst.Name) if (change := self._changes.get(node))
        }
        return self._tree.changed(variable.value, inside)

    def of(self, variable: _Variable) -> Edit:
        """Return the edit that inlines the variable."""
        value = self.value(variable)
        changes: dict[cst.CSTNode, Change] = {use: put_in(value, self._tree.parent(use), use) for use in variable.uses}
        self._changes |= changes
        return Edit(changes={variable.line: remove, **changes})


def _is_launched_with(tree: Tree, use: cst.Name) -> bool:
    """Return True for an argument of a launch, which reads best by name."""
    argument = tree.parent(use)
    call = tree.parent(argument)
    return isinstance(argument, cst.Arg) and isinstance(call, cst.Call) and isinstance(call.func, cst.Subscript)


def _width(tree: Tree, statement: Statement) -> int:
    """Return the columns of a statement on one line; of a block, those of its first line."""
    text = tree.code(statement)
    if isinstance(statement, cst.BaseCompoundStatement):
        text = text.partition(":\n")[0]
    return 4 * tree.depth(statement) + len(" ".join(text.split()))
