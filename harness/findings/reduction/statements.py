"""Passes over statements: drop them, or replace a block by its body."""

from collections.abc import Container, Iterator, Sequence

import libcst as cst

from harness.findings.reduction.tree import (
    Edit,
    NameRole,
    Replacement,
    Tree,
    bound_names,
    is_statement,
    removal,
    replacement,
)


def drop_unused(tree: Tree) -> Sequence[Edit]:
    """Drop imports, variables and functions that are used only by themselves and by other unused ones.

    A function without any use stays: the file starts there.
    """
    dead: dict[cst.CSTNode, None] = {}
    loads = tree.names(tree.module, NameRole.LOAD)
    while True:
        more = [
            node
            for node, names in _definitions(tree, loads)
            if node not in dead
            and all(_inside(tree, load, node, dead) for name in names for load in loads.get(name, ()))
        ]
        if not more:
            return [removal(node) for node in reversed(dead)]
        dead.update(dict.fromkeys(more))


def _definitions(tree: Tree, loads: Container[str]) -> Iterator[tuple[cst.CSTNode, tuple[str, ...]]]:
    for alias in tree.all(cst.ImportAlias):
        holder = tree.parent(alias)
        is_alone = isinstance(holder, cst.Import | cst.ImportFrom) and not _siblings(holder)
        yield (tree.statement(alias) if is_alone else alias), bound_names(alias)
    for function in tree.all(cst.FunctionDef):
        if function.name.value in loads:
            yield function, (function.name.value,)
    for line in tree.all(cst.SimpleStatementLine):
        stored = [name for name in tree.inside(line, cst.Name) if tree.role(name) is NameRole.STORE]
        if stored and not tree.inside(line, cst.ImportAlias):
            yield line, tuple(name.value for name in stored)


def _siblings(holder: cst.Import | cst.ImportFrom) -> bool:
    return not isinstance(holder.names, cst.ImportStar) and len(holder.names) > 1


def _inside(tree: Tree, load: cst.Name, node: cst.CSTNode, dead: dict[cst.CSTNode, None]) -> bool:
    return any(holder is node or holder in dead for holder in tree.around(load))


def drop_statements(tree: Tree) -> Sequence[Edit]:
    """Drop a statement, outer and last ones first, so that uses of a value go before its definition."""
    statements = [node for node in reversed(tree.nodes) if is_statement(node) and not _is_branch(tree, node)]
    return [removal(node) for node in sorted(statements, key=tree.depth)]


def forget_names(tree: Tree) -> Sequence[Edit]:
    """Drop all statements that mention a local variable: it removes variables with cyclic uses."""
    edits: list[Edit] = []
    for function in reversed(tree.functions):
        loads = tree.names(function, NameRole.LOAD)
        for name, stores in reversed(list(tree.names(function, NameRole.STORE).items())):
            mentions = [*stores, *loads.get(name, ())]
            edits.append(removal(*dict.fromkeys(tree.statement(mention) for mention in mentions)))
    return edits


def take_bodies(tree: Tree) -> Sequence[Edit]:
    """Replace `if`, `with`, `while` and `try` by their body."""
    blocks = [node for node in tree.nodes if isinstance(node, cst.If | cst.With | cst.While | cst.Try)]
    return [replacement(block, _body if not _is_branch(tree, block) else _as_else) for block in blocks]


def take_else(tree: Tree) -> Sequence[Edit]:
    """Replace an `if` by its `else` branch."""
    return [
        replacement(block, _orelse)
        for block in tree.all(cst.If)
        if isinstance(block.orelse, cst.Else) and not _is_branch(tree, block)
    ]


def drop_else(tree: Tree) -> Sequence[Edit]:
    """Drop `else` and `elif`."""
    branches = [branch for block in tree.all(cst.If) if (branch := block.orelse) is not None]
    return [removal(branch) for branch in branches]


def run_loops_once(tree: Tree) -> Sequence[Edit]:
    """Replace a `for` loop over a range by its body with the first value."""
    return [replacement(loop, _first_trip) for loop in tree.all(cst.For)]


def split_assignments(tree: Tree) -> Sequence[Edit]:
    """Replace `a, b = x, y` by a line for each variable, which can be dropped alone."""
    lines = [line for line in tree.all(cst.SimpleStatementLine) if _parallel(line) is not None]
    return [replacement(line, _split) for line in lines]


def assign_plainly(tree: Tree) -> Sequence[Edit]:
    """Replace `v += x` by `v = x`."""
    return [
        replacement(node, lambda node: cst.Assign(targets=[cst.AssignTarget(target=node.target)], value=node.value))
        for node in tree.all(cst.AugAssign)
    ]


def _is_branch(tree: Tree, node: cst.CSTNode) -> bool:
    """Return True for an `elif`."""
    return isinstance(node, cst.If) and isinstance(tree.parent(node), cst.If)


def _body(block: cst.If | cst.With | cst.While | cst.Try) -> Replacement:
    return cst.FlattenSentinel(block.body.body)


def _as_else(block: cst.If) -> Replacement:
    return cst.Else(body=block.body)


def _orelse(block: cst.If) -> Replacement:
    return cst.FlattenSentinel(block.orelse.body.body) if isinstance(block.orelse, cst.Else) else block


def _first_trip(loop: cst.For) -> Replacement:
    body: list[cst.BaseStatement | cst.BaseSmallStatement] = list(loop.body.body)
    start = _start(loop.iter)
    if start is not None:
        body.insert(0, _assignment(loop.target, start))
    return cst.FlattenSentinel(body)


def _start(values: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the first value of `range(…)`, `tl.range(…)` or `tl.static_range(…)`."""
    if not isinstance(values, cst.Call):
        return None
    name = values.func.attr if isinstance(values.func, cst.Attribute) else values.func
    if not isinstance(name, cst.Name) or name.value not in {"range", "static_range"}:
        return None
    bounds = [argument.value for argument in values.args if argument.keyword is None and not argument.star]
    return bounds[0] if len(bounds) > 1 else cst.Integer("0")


def _parallel(line: cst.SimpleStatementLine) -> tuple[cst.Tuple, cst.Tuple] | None:
    """Return the two sides of `a, b = x, y`."""
    match line.body:
        case [cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple() as left)], value=cst.Tuple() as right)]:
            return (left, right) if len(left.elements) == len(right.elements) else None
        case _:
            return None


def _split(line: cst.SimpleStatementLine) -> Replacement:
    sides = _parallel(line)
    if sides is None:
        return line
    pairs = zip(*(side.elements for side in sides), strict=True)
    return cst.FlattenSentinel([_assignment(target.value, value.value) for target, value in pairs])


def _assignment(target: cst.BaseExpression, value: cst.BaseExpression) -> cst.SimpleStatementLine:
    assert isinstance(target, cst.BaseAssignTargetExpression)
    return cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(target=target)], value=value)])
