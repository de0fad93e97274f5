"""Which call of a test led to a launch: the function, and its arguments by parameter.

The stack is read when the kernel is launched.  Of each frame Python knows which call expression it executes, so the
arguments are looked up by the names that the caller wrote.  An argument that is written as more than a name is read
from the function that was called.
"""

import ast
import inspect
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
import triton.language as tl

from harness.drafts.seen_calls import ArgumentKind, SeenArgument, SeenCall, function_of
from harness.engines.torch.torch_seam import plain_torch, without_dispatch_modes
from harness.engines.triton.driver import LaunchRequest
from harness.execution.case_execution import NOT_THE_LIBRARY
from harness.syntax_trees import module_of

SMALL = 2**16
"""Elements of a tensor up to which its range is looked up."""
SUM_TOLERANCE = 1e-2
"""How far the sum of a row may be from one: that of a softmax in 16 bits is a little off."""
WIDEST_INTEGER = 2**31
Bound = Mapping[str, Any]


class CallSites:
    """Finds calls of tests, for the libraries of one command."""

    def __init__(self, libraries: tuple[str, ...], scratch: str) -> None:
        """`scratch` is the folder of what Inductor generates."""
        self._installed = ("-packages/", str(Path(os.__file__).parent), *libraries)
        self._generated = scratch

    def find(self, test: str, request: LaunchRequest) -> SeenCall | None:
        """Return the call of the test that led to this launch; None if the test is not on this thread's stack."""
        file = Path(test.partition("::")[0]).resolve()
        frames = _stack()
        own = [index for index, frame in enumerate(frames) if _is_of(frame, file)]
        if not own:
            return None
        with plain_torch(), without_dispatch_modes():
            return self._called(test, frames, own, request) or self._launched(test, frames[own[-1]], request)

    def _called(self, test: str, frames: list[FrameType], own: list[int], request: LaunchRequest) -> SeenCall | None:
        """Return the outermost function that a suite can call: outside the test's file, or else in it."""
        calls: list[tuple[bool, SeenCall]] = []
        for index in range(own[0] + 1, len(frames)):
            callee = _callee(frames[index])
            if callee is None or (index in own and callee.name == _test_name(test)):
                continue
            site = frames[max(place for place in own if place < index)]
            arguments = {name: seen_argument(value) for name, value in _evaluated(frames[index - 1], callee).items()}
            module, file = callee.frame.f_globals["__name__"], callee.frame.f_code.co_filename
            call = SeenCall(
                test=test,
                module=module,
                name=callee.name,
                file=file,
                folder=self._folder(module, file),
                arguments=arguments,
                called_as=_called_as(site),
                written=_written(site, callee),
                sizes=_sizes(frames[own[0]]),
                line=site.f_lineno,
                kernel=request.source.fn.__name__,
            )
            kinds = {argument.kind for argument in arguments.values()}
            if ArgumentKind.TENSOR in kinds and ArgumentKind.OTHER not in kinds:
                calls.append((index in own, call))
        return next((call for is_own, call in calls if not is_own), calls[0][1] if calls else None)

    def _launched(self, test: str, frame: FrameType, request: LaunchRequest) -> SeenCall | None:
        """Return the launch itself as a call."""
        kernel = request.source.fn
        function = kernel.fn
        if "<locals>" in function.__qualname__ or function.__code__.co_filename.startswith(self._generated):
            return None
        named = zip(kernel.arg_names, request.arguments, strict=False)
        arguments = {name: seen_argument(value) for name, value in named}
        if any(argument.kind is ArgumentKind.OTHER for argument in arguments.values()):
            return None
        return SeenCall(
            test=test,
            module=function.__module__,
            name=function.__name__,
            file=function.__code__.co_filename,
            folder=self._folder(function.__module__, function.__code__.co_filename),
            is_kernel=True,
            arguments=arguments,
            written=_written_launch(frame, kernel.arg_names),
            sizes=_sizes(frame),
            line=frame.f_lineno,
            kernel=function.__name__,
            grid=tuple(request.grid),
        )

    def _folder(self, module: str, file: str) -> str:
        """Return the folder from which a module is imported, unless it is found without one."""
        if any(part in file for part in self._installed):
            return ""
        path = Path(file).resolve().with_suffix("")
        depth = len(module.split(".")) + (path.name == "__init__")
        return str(path.parents[depth - 1]) if module != "__main__" else str(path.parent)


def _stack() -> list[FrameType]:
    """Return the frames of the program on this thread, the outermost first.

    None of the harness is among them: a frame that holds a list with itself keeps all tensors of the launch alive.
    """
    stack = traceback.walk_stack(inspect.currentframe())
    return [frame for frame, _ in stack if not any(part in frame.f_code.co_filename for part in NOT_THE_LIBRARY)][::-1]


def _is_of(frame: FrameType, file: Path) -> bool:
    return frame.f_code.co_filename.endswith(file.name) and Path(frame.f_code.co_filename).resolve() == file


def _test_name(test: str) -> str:
    return function_of(test).rpartition("::")[2]


@dataclass(frozen=True, slots=True)
class _Callee:
    """A function on the stack that a suite can call."""

    frame: FrameType
    name: str
    """By which it is reached from its module."""
    signature: inspect.Signature
    """Without the context of an autograd function."""


def _callee(frame: FrameType) -> _Callee | None:
    """Return the frame's function; None if a suite cannot call it."""
    code = frame.f_code
    owner: Any = sys.modules.get(frame.f_globals.get("__name__", ""))
    *outer, name = code.co_qualname.split(".")
    if owner is None or "<" in code.co_qualname:
        return None
    for part in outer:
        owner = getattr(owner, part, None)
    function = getattr(owner, name, None)
    if not inspect.isfunction(function) or inspect.unwrap(function).__code__ is not code:
        return None
    signature = inspect.signature(inspect.unwrap(function))
    if not isinstance(owner, type):
        return _Callee(frame, code.co_qualname, signature)
    if not issubclass(owner, torch.autograd.Function) or name != "forward":
        return None
    without_context = list(signature.parameters.values())[1:]
    return _Callee(frame, ".".join((*outer, "apply")), signature.replace(parameters=without_context))


def _evaluated(caller: FrameType, callee: _Callee) -> Bound:
    """Return the arguments by parameter: as the caller has them by name, or else as the function has them now."""
    by_name = _bound(caller, callee.signature)
    if by_name is not None:
        return by_name
    values = callee.frame.f_locals
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    wanted = [parameter for parameter in callee.signature.parameters.values() if parameter.kind not in kinds]
    return {
        parameter.name: values[parameter.name]
        for parameter in wanted
        if parameter.name in values and not _is_default(parameter, values[parameter.name])
    }


def _is_default(parameter: inspect.Parameter, value: Any) -> bool:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return False
    is_plain = type(default) is type(value) and isinstance(value, bool | int | float | str)
    return default is value or (is_plain and default == value)


def _bound(caller: FrameType, signature: inspect.Signature) -> Bound | None:
    node = _call_of(caller)
    if node is None:
        return None
    try:
        positional: list[Any] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                positional += _value(argument.value, caller)
            else:
                positional.append(_value(argument, caller))
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            value = _value(keyword.value, caller)
            keywords |= {keyword.arg: value} if keyword.arg else value
        return dict(signature.bind(*positional, **keywords).arguments)
    except (LookupError, TypeError):  # an argument is no name, or a wrapper changes the arguments
        return None


def _value(node: ast.expr, frame: FrameType) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Name(id=name):
            local = frame.f_locals
            return local[name] if name in local else frame.f_globals[name]
        case _:
            raise LookupError


def _called_as(caller: FrameType) -> str:
    """Return the source of what the frame calls, without the arguments."""
    node = _call_of(caller)
    return ast.unparse(node.func) if node is not None else ""


def _written(caller: FrameType, callee: _Callee) -> Mapping[str, str]:
    """Return the source of each argument, if the test's own line calls the function and not what leads to it."""
    node = _call_of(caller)
    if node is None or not _is_call_of(node.func, caller, callee) or _is_starred(node):
        return {}
    try:
        keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg}
        bound = callee.signature.bind(*map(ast.unparse, node.args), **keywords)
    except TypeError:  # a decorator changes the arguments
        return {}
    return {name: text for name, text in bound.arguments.items() if isinstance(text, str)}


def _written_launch(caller: FrameType, parameters: Sequence[str]) -> Mapping[str, str]:
    """Return the source of each argument of `kernel[grid](…)`."""
    node = _call_of(caller)
    if node is None or not isinstance(node.func, ast.Subscript) or _is_starred(node):
        return {}
    positional = dict(zip(parameters, map(ast.unparse, node.args), strict=False))
    keywords = {keyword.arg or "": ast.unparse(keyword.value) for keyword in node.keywords}
    return positional | {name: text for name, text in keywords.items() if name in parameters}


def _is_starred(node: ast.Call) -> bool:
    return any(isinstance(argument, ast.Starred) for argument in node.args)


def _is_call_of(node: ast.expr, caller: FrameType, callee: _Callee) -> bool:
    match node:
        case ast.Name():
            try:
                function = _value(node, caller)
            except LookupError:
                return False
            return inspect.isfunction(function) and inspect.unwrap(function).__code__ is callee.frame.f_code
        case ast.Attribute(attr=name):
            return name == callee.name.rpartition(".")[2]
        case _:
            return False


def _call_of(frame: FrameType) -> ast.Call | None:
    """Return the call expression that the frame executes."""
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    return _calls(frame.f_code.co_filename).get(positions)


@lru_cache(maxsize=64)
def _calls(file: str) -> Mapping[tuple[int | None, ...], ast.Call]:
    """Return the calls of a file, by first and last line and column as instructions have them."""
    try:
        tree = module_of(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):  # code that was made from a text, or is in no file
        return {}
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {(call.lineno, call.end_lineno, call.col_offset, call.end_col_offset): call for call in calls}


def _sizes(frame: FrameType) -> dict[str, int]:
    """Return the whole numbers of a test by name, in the order in which it names them."""
    return dict(_whole_numbers(frame.f_code, frame.f_locals))


def _whole_numbers(code: CodeType, values: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for name in (*code.co_varnames, *code.co_cellvars):
        value = values.get(name)
        if type(value) is int and 0 < value < WIDEST_INTEGER:
            yield name, value


def seen_argument(value: object) -> SeenArgument:
    """Return what is noted of an argument."""
    match value:
        case None | bool() | int() | float() | str():
            return SeenArgument(kind=ArgumentKind.SCALAR, scalar=value)
        case torch.Tensor() if value.layout is torch.strided:
            return _seen_tensor(value)
        case tl.constexpr():
            return seen_argument(value.value)
        case _:
            return SeenArgument(kind=ArgumentKind.OTHER, other=type(value).__name__)


def _seen_tensor(value: torch.Tensor) -> SeenArgument:
    seen = SeenArgument(
        kind=ArgumentKind.TENSOR,
        shape=tuple(value.shape),
        strides=tuple(value.stride()),
        dtype=str(value.dtype).removeprefix("torch."),
        requires_grad=value.requires_grad,
    )
    if not 0 < value.numel() <= SMALL or value.is_complex() or value.dtype is torch.bool:
        return seen
    rows = _on_host(value.detach()).reshape(-1, value.shape[-1] if value.ndim else 1)
    return _with_numbers(seen, rows.double()) if value.is_floating_point() else _with_integers(seen, rows.long())


def _on_host(value: torch.Tensor) -> torch.Tensor:
    """Return the tensor's numbers in the memory of the host.

    A copy of bytes runs no kernel, which initcheck would report where the numbers were never written.
    """
    if not value.is_cuda or value.is_contiguous():
        return value.cpu()
    length = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    return value.as_strided((length,), (1,)).cpu().as_strided(value.shape, value.stride(), 0)


def _with_integers(seen: SeenArgument, rows: torch.Tensor) -> SeenArgument:
    flat = rows.reshape(-1)
    steps = rows.sort(-1).values.diff()
    low, high = int(flat.min()), int(flat.max())
    is_boundary = len(seen.shape) == 1 and int(flat[0]) == 0 and high > 0
    return replace(
        seen,
        low=low,
        high=high,
        total=int(flat.sum()),
        rises=is_boundary and bool((flat[1:] >= flat[:-1]).all()),
        is_distinct=int(flat.unique().numel()) == flat.numel(),
        has_distinct_rows=bool((steps > 0).all()),
        is_ascending=bool((rows.diff() >= 0).all()),
    )


def _with_numbers(seen: SeenArgument, rows: torch.Tensor) -> SeenArgument:
    if not rows.isfinite().all():
        return seen
    sums = rows.sum(-1)
    return replace(
        seen,
        smallest=float(rows.min()),
        largest=float(rows.max()),
        sums_to_one=rows.shape[-1] > 1 and torch.allclose(sums, torch.ones_like(sums), atol=SUM_TOLERANCE),
    )
