"""The statements at the top of a Python file: which names each binds, where imports lead, and what is a kernel.

`name_uses` has the names that a statement uses, and `reaching` follows them from file to file.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from harness.changes.name_uses import ImportTarget, Use, dotted, import_targets, stored_names, uses_of
from harness.syntax_trees import module_of

WITHOUT_EFFECT = (ast.Import, ast.ImportFrom, ast.Pass, ast.Global, ast.Delete)
ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
OTHER_JITS = frozenset({"torch", "jax", "numba"})
DYNAMIC = frozenset({"globals", "exec", "__getattr__"})
"""Names in a file that may give its module names which no statement binds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ModuleStatement:
    """A statement at the top of a file, outside which no part of it is used alone: a function, a class, a constant."""

    module: "ModuleSource"
    name: str
    """The first name that it binds, or that it changes; empty for one that does neither, such as a call."""
    nodes: tuple[ast.AST, ...]
    """The statement, after the conditions under which it runs."""
    is_kernel: bool = False
    """True for functions that Triton compiles: kernels and device functions."""

    @cached_property
    def uses(self) -> frozenset[Use]:
        """What it uses by name."""
        return uses_of(self.nodes, self.module.package)

    @cached_property
    def digest(self) -> str:
        """The same for equal code: comments, docstrings and layout do not count."""
        return hashlib.sha256("\n".join(map(ast.dump, self.nodes)).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class NameBinding:
    """One way in which a name of a module gets its value."""

    statement: ModuleStatement
    target: ImportTarget | None = None
    """Where an import leads; None for anything else."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ModuleSource:
    """The content of one Python file, wherever it lies."""

    name: str
    """Its dotted name; empty for a file that is loaded by its path."""
    label: str
    """Its path below its root, the same in every checkout."""
    is_package: bool = False
    is_of_project: bool = False
    """True for a file that belongs to no library: a suite, and what it loads."""
    bindings: dict[str, list[NameBinding]] = field(default_factory=dict[str, list[NameBinding]])
    attached: dict[str, list[ModuleStatement]] = field(default_factory=dict[str, list[ModuleStatement]])
    """By the name of an object, statements that change or register it: `CONFIGS.append(…)`, `@op.reference def …`."""
    effects: list[ModuleStatement] = field(default_factory=list[ModuleStatement])
    """Statements that run at import and name no object of the file."""
    stars: list[ImportTarget] = field(default_factory=list[ImportTarget])
    is_dynamic: bool = False
    """True if it may have names that no statement binds."""

    @cached_property
    def tables(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The keys of its dictionaries, each with the texts in its value."""
        nodes = (node for bounds in self.bindings.values() for bound in bounds for node in bound.statement.nodes)
        tables = (each for node in nodes if isinstance(node, ASSIGNMENTS) for each in ast.walk(node))
        return tuple(
            (key.value, tuple(_texts(value)))
            for table in tables
            if isinstance(table, ast.Dict)
            for key, value in zip(table.keys, table.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        )

    @property
    def package(self) -> str:
        """The package to which its relative imports refer."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @property
    def statements(self) -> Iterator[ModuleStatement]:
        yield from (bound.statement for bounds in self.bindings.values() for bound in bounds)
        yield from (statement for statements in self.attached.values() for statement in statements)
        yield from self.effects


def parsed_module(text: str, *, name: str, label: str, is_of_project: bool) -> ModuleSource:
    """Parse the text of a file.  One that is no Python counts as one statement, its text."""
    try:
        tree = module_of(text)
    except (SyntaxError, ValueError):
        tree = ast.Module(body=[ast.Expr(ast.List([ast.Constant(text)], ast.Load()))], type_ignores=[])
    module = ModuleSource(
        name=name,
        label=label,
        is_package=Path(label).name == "__init__.py" or not Path(label).suffix,
        is_of_project=is_of_project,
        is_dynamic=any(map(_is_dynamic, ast.walk(tree))),
    )
    _Reader(module).read(_WithoutTexts().visit(tree).body)
    return module


def _is_dynamic(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name) | ast.FunctionDef(name=name):
            return name in DYNAMIC
        case _:
            return False


def _texts(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


class _WithoutTexts(ast.NodeTransformer):
    """Removes statements that are texts alone, docstrings among them."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Constant):
            return None
        return self.generic_visit(node)


class _Reader:
    """Sorts the statements of one file into its tables."""

    def __init__(self, module: ModuleSource) -> None:
        self._module = module

    def read(self, body: Iterable[ast.stmt]) -> None:
        """Read statements.  What each changes is read last: then all objects of the file are known."""
        flat = tuple(_flat(body, ()))
        for node, around in flat:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._bind_import(node, around)
        for node, around in flat:
            if names := _bound_names(node):
                statement = self._statement(node, around, names[0])
                for name in names:
                    self._module.bindings.setdefault(name, []).append(NameBinding(statement=statement))
        for node, around in flat:
            self._attach(node, around)

    def _statement(self, node: ast.stmt, around: tuple[ast.AST, ...], name: str) -> ModuleStatement:
        return ModuleStatement(module=self._module, name=name, nodes=(*around, node), is_kernel=self._is_kernel(node))

    def _bind_import(self, node: ast.Import | ast.ImportFrom, around: tuple[ast.AST, ...]) -> None:
        for name, target in import_targets(node, self._module.package):
            if name == "*":
                self._module.stars.append(target)
                continue
            leaf = ast.Constant(str(target))
            statement = ModuleStatement(module=self._module, name=name, nodes=(*around, leaf))
            self._module.bindings.setdefault(name, []).append(NameBinding(statement=statement, target=target))

    def _attach(self, node: ast.stmt, around: tuple[ast.AST, ...]) -> None:
        """Sort a statement to the objects that it changes, or to the effects of an import."""
        bound = _bound_names(node)
        if isinstance(node, WITHOUT_EFFECT) or (bound and isinstance(node, ASSIGNMENTS)):
            return
        objects = [name for name in _changed_objects(node) if self._is_object(name) and name not in bound]
        for name in dict.fromkeys(objects):
            attached = self._module.attached.setdefault(name, [])
            attached.append(self._statement(node, around, bound[0] if bound else name))
        if not objects and not bound:
            self._module.effects.append(self._statement(node, around, ""))

    def _is_object(self, name: str) -> bool:
        return any(bound.target is None for bound in self._module.bindings.get(name, ()))

    def _is_kernel(self, node: ast.stmt) -> bool:
        return isinstance(node, ast.FunctionDef) and any(map(self._is_jit, node.decorator_list))

    def _is_jit(self, decorator: ast.expr) -> bool:
        root, *rest = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
        targets = [bound.target for bound in self._module.bindings.get(root, ()) if bound.target]
        modules = {target.module.partition(".")[0] for target in targets} or {root}
        return [root, *rest][-1] == "jit" and not modules & OTHER_JITS


def _flat(body: Iterable[ast.stmt], around: tuple[ast.AST, ...]) -> Iterator[tuple[ast.stmt, tuple[ast.AST, ...]]]:
    """Yield the statements of blocks one by one, each with the conditions around it."""
    for node in body:
        match node:
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                pass  # of a program, which no import runs
            case ast.If(test=test):
                yield from _flat(node.body, (*around, test))
                yield from _flat(node.orelse, (*around, ast.UnaryOp(ast.Not(), test)))
            case ast.Try():
                handlers = [each for handler in node.handlers for each in handler.body]
                yield from _flat((*node.body, *node.orelse, *node.finalbody), around)
                yield from _flat(handlers, around)
            case ast.With(items=items):
                yield from _flat(node.body, (*around, *(item.context_expr for item in items)))
            case _:
                yield node, around


def _bound_names(node: ast.stmt) -> tuple[str, ...]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return (node.name,)
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.For() | ast.While() | ast.Match() | ast.Expr():
            return stored_names(node)
        case _:
            return ()


def _changed_objects(node: ast.stmt) -> Iterator[str]:
    """Yield names of objects that a statement may change: those it mentions, or whose attribute decorates it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        for decorator in node.decorator_list:
            root, *rest = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if rest:
                yield root
        return
    yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
