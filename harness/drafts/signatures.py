"""What a Python file says of its kernels and public functions, read with `ast`: nothing is imported or executed."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.drafts.config_pickers import ConfigPicker, config_pickers
from harness.drafts.stated_domain import StatedDomain, stated_domain
from harness.errors import UsageError, unknown
from harness.syntax_trees import module_of

JIT_NAMES = frozenset({"jit", "triton.jit", "tl.jit"})
CONSTEXPR = "constexpr"
REQUIRED: Any = object()
"""The default of a parameter without one."""
POINTER_CALLS = frozenset({"advance", "make_block_ptr", "make_tensor_descriptor", "multiple_of"})
"""Functions of the language that return a pointer like the one that they are given."""
FLOAT_NAMES = frozenset({"alpha", "beta", "eps", "epsilon", "p", "scale", "sm_scale", "momentum", "weight_decay"})
"""Parameters of kernels that are numbers of a formula, and no sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceParameter:
    """One parameter of a function or kernel."""

    name: str
    annotation: str = ""
    """Its source; empty if there is none."""
    default: Any = REQUIRED
    """The literal default; None also stands for an expression that is no literal."""

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @property
    def is_constexpr(self) -> bool:
        return self.annotation.endswith(CONSTEXPR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A function that `triton.jit` decorates."""

    name: str
    line: int
    parameters: tuple[SourceParameter, ...]
    loaded: frozenset[str]
    """The parameters whose addresses are loaded from, directly or through other pointers."""
    stored: frozenset[str]
    """The parameters whose addresses are stored to."""
    axes: int
    """How many axes of the grid its programs ask for."""
    is_tuned: bool
    """True if an autotuner or heuristics choose some of its constants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicFunction:
    """A function without an underscore that is no kernel."""

    name: str
    line: int
    parameters: tuple[SourceParameter, ...]
    unpacked: tuple[tuple[str, tuple[str, ...]], ...]
    """What the function unpacks, as in `T, D = x.shape`: the tensor, and the names of its axes."""
    names: frozenset[str]
    """All names in it."""
    launches: bool
    """True if it launches a kernel of its file, directly or through other functions of the file."""
    stated: StatedDomain
    """What its docstring and its checks say of its arguments."""
    is_differentiable: bool
    """True if it does so through a class of the file, as a `torch.autograd.Function`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """The kernels and public functions of one Python file, in the file's order."""

    path: Path
    kernels: tuple[Kernel, ...]
    functions: tuple[PublicFunction, ...]
    pickers: tuple[ConfigPicker, ...] = ()

    @property
    def subjects(self) -> tuple[Kernel | PublicFunction, ...]:
        """What a suite should test: functions that launch kernels; without any, the kernels themselves."""
        return tuple(function for function in self.functions if function.launches) or self.kernels or self.functions

    def only(self, name: str) -> "SourceFile":
        """Return the file with this function or kernel alone.

        Raises:
            UsageError: the file defines neither of this name.
        """
        by_name: dict[str, Kernel | PublicFunction] = {
            subject.name: subject for subject in (*self.kernels, *self.functions)
        }
        match by_name.get(name):
            case Kernel() as kernel:
                return replace(self, kernels=(kernel,), functions=())
            case PublicFunction() as function:
                return replace(self, kernels=(), functions=(function,))
            case None:
                raise unknown("function", name, by_name)


def read_source(path: Path) -> SourceFile:
    """Read a Python file.

    Raises:
        UsageError: it cannot be read or parsed; the text has the line.
    """
    try:
        tree = module_of(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path}:{getattr(error, 'lineno', 1)}: {getattr(error, 'msg', error)}") from None
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    kernels = [node for node in functions if _is_kernel(node)]
    hosts = [node for node in functions if node not in kernels]
    launching = _launching(tree, hosts, {node.name for node in kernels})
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)} & launching
    return SourceFile(
        path=path,
        pickers=tuple(config_pickers(tree)),
        kernels=tuple(_kernel(node) for node in kernels if _stores(node)),
        functions=tuple(
            PublicFunction(
                name=node.name,
                line=node.lineno,
                parameters=_parameters(node),
                unpacked=tuple(_unpacked(node)),
                names=frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name)),
                launches=node.name in launching,
                stated=stated_domain(node),
                is_differentiable=_uses(node, classes),
            )
            for node in hosts
            if not node.name.startswith("_")
        ),
    )


def _is_kernel(node: ast.FunctionDef) -> bool:
    decorators = (part.func if isinstance(part, ast.Call) else part for part in node.decorator_list)
    names = map(ast.unparse, decorators)
    return any(name in JIT_NAMES for name in names)


def _stores(node: ast.FunctionDef) -> bool:
    """Return True for a kernel that a host launches: functions that kernels call rarely store."""
    return any(name in {"store", "atomic_add", "atomic_max", "atomic_min"} for name, _ in _language_calls(node))


def _kernel(node: ast.FunctionDef) -> Kernel:
    parameters = _parameters(node)
    names = {parameter.name for parameter in parameters}
    sources = _sources_of_names(node, names)
    loaded, stored = set[str](), set[str]()
    for name, call in _language_calls(node):
        if call.args and (name in {"load", "store"} or name.startswith("atomic_")):
            pointers = _names_in(call.args[0], sources) & names
            (loaded if name == "load" else stored).update(pointers)
    numbers = {parameter.name for parameter in parameters if parameter.is_constexpr} | _used_as_numbers(node, names)
    decorators = " ".join(map(ast.unparse, node.decorator_list))
    axes = [
        call.args[0].value
        for name, call in _language_calls(node)
        if name == "program_id" and call.args and isinstance(call.args[0], ast.Constant)
    ]
    return Kernel(
        name=node.name,
        line=node.lineno,
        parameters=parameters,
        loaded=frozenset(loaded - numbers),
        stored=frozenset(stored - numbers),
        axes=1 + max((axis for axis in axes if isinstance(axis, int)), default=0),
        is_tuned="autotune" in decorators or "heuristics" in decorators,
    )


def _language_calls(node: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call of `tl.something`, with that name."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            yield part.func.attr, part


def _sources_of_names(node: ast.FunctionDef, parameters: set[str]) -> dict[str, set[str]]:
    """Return by local name the parameters that its value comes from, as far as plain assignments show it."""
    sources: dict[str, set[str]] = {name: {name} for name in parameters}
    for part in (*ast.walk(node), *ast.walk(node)):  # twice: a loop may use what a later line assigns
        match part:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AugAssign(target=ast.Name(id=name), value=value)
            ):
                sources[name] = sources.get(name, set()) | _names_in(value, sources)
            case _:
                pass
    return sources


def _names_in(node: ast.AST, sources: dict[str, set[str]]) -> set[str]:
    """Return what the names of an address come from, without what is loaded from memory on the way."""
    match node:
        case ast.Name(id=name):
            return sources.get(name, set())
        case ast.Call(func=ast.Attribute(attr=called), args=arguments, keywords=keywords) if called in POINTER_CALLS:
            named = [keyword.value for keyword in keywords if keyword.arg == "base"]
            return {name for argument in (*arguments[:1], *named) for name in _names_in(argument, sources)}
        case ast.Call():
            return set()
        case _:
            return {name for child in ast.iter_child_nodes(node) for name in _names_in(child, sources)}


def _used_as_numbers(node: ast.FunctionDef, parameters: set[str]) -> set[str]:
    """Return the parameters that are multiplied or compared somewhere: no pointer is."""
    used = set[str]()
    for part in ast.walk(node):
        match part:
            case ast.Compare():
                operands = [part.left, *part.comparators]
            case ast.BinOp(op=ast.Mult() | ast.FloorDiv() | ast.Mod() | ast.Div()):
                operands = [part.left, part.right]
            case ast.Call(func=ast.Attribute(attr="cdiv") | ast.Name(id="range")):
                operands = part.args
            case _:
                continue
        used |= {name.id for name in operands if isinstance(name, ast.Name)}
    return used & parameters


def _parameters(node: ast.FunctionDef) -> tuple[SourceParameter, ...]:
    declared = node.args
    positional = [*declared.posonlyargs, *declared.args]
    defaults: list[ast.expr | None] = [*[None] * (len(positional) - len(declared.defaults)), *declared.defaults]
    pairs = [*zip(positional, defaults, strict=True), *zip(declared.kwonlyargs, declared.kw_defaults, strict=True)]
    return tuple(
        SourceParameter(
            name=argument.arg,
            annotation=ast.unparse(argument.annotation) if argument.annotation else "",
            default=REQUIRED if default is None else _literal(default),
        )
        for argument, default in pairs
    )


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _unpacked(node: ast.FunctionDef) -> Iterator[tuple[str, tuple[str, ...]]]:
    for part in ast.walk(node):
        match part:
            case ast.Assign(
                targets=[ast.Tuple(elts=names)], value=ast.Attribute(value=ast.Name(id=tensor), attr="shape")
            ) if all(isinstance(name, ast.Name) for name in names):
                yield tensor, tuple(name.id for name in names if isinstance(name, ast.Name))
            case _:
                pass


def _launching(tree: ast.Module, hosts: list[ast.FunctionDef], kernels: set[str]) -> set[str]:
    """Return the functions that launch a kernel of the file, directly or through functions and classes of the file."""
    bodies: dict[str, ast.AST] = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    bodies |= {node.name: node for node in hosts}
    launching = {name for name, body in bodies.items() if _launches(body, kernels)}
    while True:
        more = {name for name, body in bodies.items() if name not in launching and _uses(body, launching)}
        if not more:
            return launching
        launching |= more


def _launches(body: ast.AST, kernels: set[str]) -> bool:
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Subscript)
        and isinstance(part.func.value, ast.Name)
        and part.func.value.id in kernels
        for part in ast.walk(body)
    )


def _uses(body: ast.AST, names: set[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(body))
