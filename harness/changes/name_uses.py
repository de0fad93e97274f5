"""The names that a piece of Python uses of its module, with the attributes taken of them; locals are left out.

Too many names do no harm, too few would hide a change: a comprehension's variable counts as a name of the module.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTarget:
    """What an import names: a module, or a name in one.  Relative imports are resolved."""

    module: str
    name: str = ""
    """Empty for the module itself."""

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameUse:
    """A name that is read: `layernorm.layer_norm` is the name `layernorm` with one attribute."""

    name: str
    attributes: tuple[str, ...] = ()
    target: ImportTarget | None = None
    """Where an import inside the function leads; None for a name of the module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUse:
    """A file that a suite loads by its path, relative to the suite."""

    file: str
    """The path; or `=NAME`, the constant that holds it."""
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextUse:
    """A text, which may name a function as `package.module:function`, or a file."""

    text: str


Use = NameUse | FileUse | TextUse


def uses_of(nodes: Iterable[ast.AST], package: str) -> frozenset[Use]:
    """Return what the nodes use; relative imports inside functions refer to the package."""
    collector = _Collector(package)
    for node in nodes:
        collector.visit(node)
    return frozenset(collector.uses)


def dotted(node: ast.AST) -> tuple[str, ...]:
    """Return the parts of `a.b.c`; for anything else, an empty name and the attributes after it."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id if isinstance(node, ast.Name) else "", *reversed(attributes))


def stored_names(node: ast.AST) -> tuple[str, ...]:
    """Return the names that a statement binds, each once: not those of functions and comprehensions inside it."""
    return tuple(dict.fromkeys(_stored(node)))


def import_targets(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, ImportTarget]]:
    """Yield each name that an import binds, and where it leads; `*` stands for all names of a module."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            root = alias.name.partition(".")[0]
            yield (alias.asname or root), ImportTarget(module=alias.name if alias.asname else root)
        return
    parts = package.split(".") if package else []
    base = parts[: len(parts) - node.level + 1] if node.level else []
    module = ".".join((*base, *([node.module] if node.module else [])))
    for alias in node.names:
        yield (alias.asname or alias.name), ImportTarget(module=module, name=alias.name)


def _stored(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
            return
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        yield from _stored(child)


@dataclass(slots=True)
class _Scope:
    """The names of one function."""

    names: frozenset[str]
    imports: Mapping[str, tuple[ImportTarget, ...]]
    files: Mapping[str, str]
    """Names that hold a file loaded by its path."""


@dataclass(slots=True)
class _Collector(ast.NodeVisitor):
    """Collects uses; `scopes` are the functions around the node, the innermost last."""

    package: str
    uses: set[Use] = field(default_factory=set[Use])
    scopes: list[_Scope] = field(default_factory=list[_Scope])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_function(node)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Store):
            self._use(node.id, ())

    def visit_Attribute(self, node: ast.Attribute) -> None:
        root, *attributes = dotted(node)
        if root:
            self._use(root, tuple(attributes))
            return
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        if isinstance(inner, ast.Call) and (file := _file_of(inner)):
            self.uses.add(FileUse(file=file, attributes=tuple(attributes)))
        else:
            self.visit(inner)

    def visit_Call(self, node: ast.Call) -> None:
        name = dotted(node.func)[-1]
        match node.args:
            case [argument, ast.Constant(value=str(attribute)), *_] if name == "getattr" and dotted(argument)[0]:
                root, *attributes = dotted(argument)
                self._use(root, (*attributes, attribute))
                for other in (*node.args[2:], *node.keywords):
                    self.visit(other)
                return
            case [ast.Constant(value=str(module)), *_] if name in {"import_module", "__import__"}:
                self.uses.add(NameUse(name="", target=ImportTarget(module=module)))
            case _ if file := _file_of(node):
                self.uses.add(FileUse(file=file))
            case _:
                pass
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.uses.add(TextUse(text=node.value))

    def visit_Import(self, node: ast.Import) -> None:
        """Leave an import to the scope of its function: what counts is the use of its names."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.names[0].name == "*":
            self.uses.update(
                NameUse(name="", target=ImportTarget(module=target.module))
                for _, target in import_targets(node, self.package)
            )

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Leave out the annotation: to follow it would reach every class that an argument may have."""
        for part in (node.target, node.value):
            if part is not None:
                self.visit(part)

    def _visit_function(self, node: Function) -> None:
        arguments = node.args
        for part in (*arguments.defaults, *filter(None, arguments.kw_defaults), *getattr(node, "decorator_list", ())):
            self.visit(part)
        body: list[Any] = [node.body] if isinstance(node, ast.Lambda) else node.body
        self.scopes.append(_scope_of(node, body, self.package))
        for part in body:
            self.visit(part)
        self.scopes.pop()

    def _use(self, name: str, attributes: tuple[str, ...]) -> None:
        for scope in reversed(self.scopes):
            if name in scope.files:
                self.uses.add(FileUse(file=scope.files[name], attributes=attributes))
                return
            if name in scope.imports:
                self.uses.update(
                    NameUse(name=name, attributes=attributes, target=target) for target in scope.imports[name]
                )
                return
            if name in scope.names:
                return
        self.uses.add(NameUse(name=name, attributes=attributes))


def _scope_of(node: Function, body: Iterable[ast.AST], package: str) -> _Scope:
    arguments = node.args
    listed = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    names = {argument.arg for argument in listed if argument is not None}
    imports: dict[str, tuple[ImportTarget, ...]] = {}
    files: dict[str, str] = {}
    outside: set[str] = set()
    for statement in body:
        names.update(_stored(statement))
        for each in _own_nodes(statement):
            match each:
                case ast.Import() | ast.ImportFrom():
                    for name, target in import_targets(each, package):
                        imports[name] = (*imports.get(name, ()), target)
                case ast.Global(names=listed) | ast.Nonlocal(names=listed):
                    outside.update(listed)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if file := _file_of(call):
                    files[name] = file
                case _:
                    pass
    return _Scope(names=frozenset(names - outside), imports=imports, files=files)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body without those of functions inside it."""
    yield node
    if not isinstance(node, Function):
        for child in ast.iter_child_nodes(node):
            yield from _own_nodes(child)


def _file_of(call: ast.Call) -> str:
    """Return the file that `beside(__file__, …)` loads; empty for other calls."""
    if dotted(call.func)[-1] != "beside":
        return ""
    match call.args:
        case [_, ast.Constant(value=str(file))]:
            return file
        case [_, ast.Name(id=name)]:
            return f"={name}"
        case _:
            return ""
