"""Functions as standalone text: their source, and every module-level name that they use.

Sources are slices of their files, so comments stay.  Names of an importable library are imported.  Names that cannot be
written as code are listed in `missing`.  Only child processes import this.
"""

import ast
import builtins
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
from types import FunctionType, GenericAlias, ModuleType
from typing import Any

import torch
import triton.language as tl

from harness.suite import beside, compiled
from harness.syntax_trees import module_of

PLAIN = (bool, int, float, str, type(None))
JIT = ("triton.jit", "jit")
COMPILED = """try:
    from harness.suite import {imported}
except ImportError:
    {name} = torch.compile"""
"""What stands for `compiled` in a program that also runs without the harness."""


class Definitions:
    """The imports and definitions of a program; each name is defined before its use."""

    def __init__(self, inlines: Callable[[str], bool], *, bare: bool = False) -> None:
        """`inlines` selects modules whose source is copied.  `bare` kernels keep only the decorator `triton.jit`."""
        self.imports: dict[str, None] = {}
        self.missing: list[str] = []
        self._inlines = inlines
        self._bare = bare
        self._owners: dict[str, object] = {}
        self._constants: dict[str, str] = {}
        self._definitions: dict[str, str] = {}

    def add(self, function: Any, *, called: str = "", undecorated: bool = False) -> str:
        """Define a function, kernel or class under its own name or as `called`, and return the name."""
        source = inner(function)
        own: str = source.__name__
        name = called or own
        if name in self._owners:
            if self._owners[name] is not source:
                self.missing.append(f"two definitions of {name}")
            return name
        self._owners[name] = source
        text = textwrap.dedent(inspect.getsource(source))
        if undecorated or self._bare:
            text = _without_decorators(text, () if undecorated else JIT)
        (node,) = module_of(text).body
        text = self._resolved(text, node, globals_of(source))
        if name != own:
            text = text.replace(f"def {own}(", f"def {name}(", 1)
        self._definitions[name] = text
        return name

    @property
    def blocks(self) -> dict[str, str]:
        """Constants, then functions and classes, by name."""
        return self._constants | self._definitions

    def _resolved(self, text: str, node: ast.stmt, known: Mapping[str, Any]) -> str:
        """Define every name that the text uses, and replace the calls of `beside`."""
        slices: list[tuple[ast.expr, str]] = []
        inside = {id(part) for call, _ in _besides(node) for part in ast.walk(call)}
        for call, attribute in _besides(node):
            slices.append(self._replacement(call, attribute, node, known))
        local = _bound(node)
        for used in ast.walk(node):
            if isinstance(used, ast.Name) and id(used) not in inside and used.id not in local and used.id in known:
                self._define(used.id, known[used.id])
        outer = getattr(node, "name", "")
        for used in ast.walk(node):
            if isinstance(used, ast.Name) and used.id not in {*local, *known, *vars(builtins), outer}:
                self.missing.append(f"{used.id}, a name of an enclosing function")
        return _replaced(text, slices)

    def _replacement(
        self, call: ast.Call, attribute: ast.Attribute | None, node: ast.stmt, known: Mapping[str, Any]
    ) -> tuple[ast.expr, str]:
        named = call.args[1]
        path = known[named.id] if isinstance(named, ast.Name) else ast.literal_eval(named)
        module = beside(str(known["__file__"]), path)
        if attribute is not None:
            return attribute, self.add(getattr(module, attribute.attr))
        used = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
        own = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        names = sorted(own & used or {name for name in own if not name.startswith("_")})
        self.imports["from types import SimpleNamespace"] = None
        members = ", ".join(f"{name}={self.add(getattr(module, name))}" for name in names)
        return call, f"SimpleNamespace({members})"

    def _define(self, name: str, value: Any) -> None:
        if name in self._constants or name in self._definitions or name == "beside":
            return
        if name.startswith("__"):
            self.missing.append(f"{name} of the suite")
            return
        if value is compiled:
            self._import_module("torch", torch)
            self._constants[name] = COMPILED.format(
                name=name, imported="compiled" if name == "compiled" else f"compiled as {name}"
            )
            return
        match value:
            case ModuleType():
                self._import_module(name, value)
            case tl.constexpr():
                self._import_module("tl", tl)
                self._constant(name, f"tl.constexpr({value.value!r})", plain=isinstance(value.value, PLAIN))
            case tl.dtype():
                self._import_module("tl", tl)
                self._constant(name, f"tl.{_attribute(tl, value)}")
            case torch.dtype():
                self._import_module("torch", torch)
                self._constant(name, str(value))
            case bool() | int() | float() | str() | None | tuple():
                parts = value if isinstance(value, tuple) else (value,)
                self._constant(name, written(value), plain=all(isinstance(part, PLAIN) for part in parts))
            case GenericAlias():
                self._import_module("torch", torch)
                self._constant(name, repr(value))
            case _:
                self._define_object(name, value)

    def _define_object(self, name: str, value: Any) -> None:
        source = inner(value)
        module: str = getattr(source, "__module__", None) or ""
        own: str = getattr(source, "__name__", "")
        if isinstance(source, FunctionType | type) and self._inlines(module):
            if (defined := self.add(value)) != name:
                self._definitions[name] = f"{name} = {defined}"
            return
        if own and getattr(tl, own, None) is value:
            self._import_module("tl", tl)
            self._constant(name, f"tl.{own}")
        elif getattr(sys.modules.get(module), own or name, None) is value:
            self.imports[f"from {module} import {own or name}" + (f" as {name}" if own not in {"", name} else "")] = (
                None
            )
        elif getattr(sys.modules.get(module), name, None) is value:
            self.imports[f"from {module} import {name}"] = None
        else:
            self.missing.append(f"{name}, a {type(value).__name__} of {module or 'no module'}")

    def _import_module(self, name: str, module: ModuleType) -> None:
        own = module.__name__
        if self._inlines(own) and not own.startswith("triton"):
            self.missing.append(f"{name}, the module {own}")
        elif own == name:
            self.imports[f"import {own}"] = None
        elif "." in own and own.rpartition(".")[2] == name:
            self.imports[f"from {own.rpartition('.')[0]} import {name}"] = None
        else:
            self.imports[f"import {own} as {name}"] = None

    def _constant(self, name: str, text: str, *, plain: bool = True) -> None:
        if not plain:
            self.missing.append(f"{name} = {text[:40]}")
        self._constants[name] = f"{name} = {text}"


def written(value: object) -> str:
    """Return the literal of a plain value: `1e-5` rather than `1e-05`."""
    return re.sub(r"(\de[-+])0(?=\d)", r"\1", repr(value)) if isinstance(value, float) else repr(value)


def inner(value: Any) -> Any:
    """Return the Python function inside Triton's wrappers: autotuners, heuristics, `jit`."""
    while not isinstance(value, FunctionType | type) and hasattr(value, "fn"):
        value = value.fn
    return value


def globals_of(source: Any) -> Mapping[str, Any]:
    """Return the module-level names that a function or class sees."""
    if isinstance(source, type):
        return vars(sys.modules[source.__module__])
    return source.__globals__


def _besides(node: ast.AST) -> Iterator[tuple[ast.Call, ast.Attribute | None]]:
    """Yield the calls of `beside`, each with the attribute that is read from its result, if any."""
    read = {id(part.value): part for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "beside":
            yield part, read.get(id(part))


def _bound(node: ast.stmt) -> set[str]:
    """Return the names that are bound anywhere inside."""
    bound: set[str] = set()
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                bound |= {alias.asname or alias.name.partition(".")[0] for alias in names}
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if part is not node:
                bound.add(name)
            case _:
                pass
    return bound


def _replaced(text: str, slices: list[tuple[ast.expr, str]]) -> str:
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    for node, new in sorted(slices, key=lambda edit: (edit[0].lineno, edit[0].col_offset), reverse=True):
        assert node.end_lineno is not None, "a parsed node knows where it ends"
        assert node.end_col_offset is not None
        after = lines[node.end_lineno - 1][node.end_col_offset :]
        before = lines[node.lineno - 1][: node.col_offset]
        lines[node.lineno - 1 : node.end_lineno] = [before + new.encode() + after]
    return b"".join(lines).decode()


def _without_decorators(text: str, kept: Collection[str]) -> str:
    """Return the definition with only the decorators of the given names."""
    (node,) = module_of(text).body
    if not isinstance(node, ast.FunctionDef) or not node.decorator_list:
        return text
    sources = [ast.get_source_segment(text, decorator) or "" for decorator in node.decorator_list]
    before = "".join(f"@{source}\n" for source in sources if source.partition("(")[0] in kept)
    return before + "".join(text.splitlines(keepends=True)[node.lineno - 1 :])


def _attribute(module: ModuleType, value: object) -> str:
    return next(name for name, known in vars(module).items() if known is value or known == value)
