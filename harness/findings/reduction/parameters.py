"""Passes over parameters of kernels and device functions, with their arguments in every call and launch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from harness.findings.reduction.tree import Change, Edit, NameRole, Replacement, Tree, removal, remove, replacement
from harness.findings.reduction.values import is_literal, put_in


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameter:
    """A parameter, and the arguments that change with it."""

    function: cst.FunctionDef
    node: cst.Param
    arguments: tuple[cst.Arg, ...]
    """The arguments of the calls that pass it."""
    is_left_out: bool
    """Some call uses the default."""

    @property
    def name(self) -> str:
        return self.node.name.value

    def dropped(self) -> dict[cst.CSTNode, Change]:
        """Return the changes that remove the parameter and its arguments."""
        return dict.fromkeys((self.node, *self.arguments), remove)


def inline_constants(tree: Tree) -> Sequence[Edit]:
    """Replace a `tl.constexpr` parameter that has one value everywhere by this value."""
    edits: list[Edit] = []
    for parameter in _parameters(tree):
        value = _only_value(tree, parameter)
        body = parameter.function.body
        if value is not None and parameter.name not in tree.names(body, NameRole.STORE):
            uses = tree.names(body, NameRole.LOAD).get(parameter.name, [])
            changes = {use: put_in(value, tree.parent(use)) for use in uses}
            edits.append(Edit(changes=parameter.dropped() | changes))
    return edits


def drop_parameters(tree: Tree) -> Sequence[Edit]:
    """Drop parameters that the body does not use."""
    return [
        Edit(changes=parameter.dropped())
        for parameter in reversed(_parameters(tree))
        if parameter.name not in tree.names(parameter.function.body, NameRole.LOAD)
    ]


def forget_parameters(tree: Tree) -> Sequence[Edit]:
    """Drop parameters together with all statements that use them."""
    edits: list[Edit] = []
    for parameter in reversed(_parameters(tree)):
        uses = tree.names(parameter.function.body, NameRole.LOAD).get(parameter.name, [])
        statements: dict[cst.CSTNode, Change] = {tree.statement(use): remove for use in uses}
        edits.append(Edit(changes=parameter.dropped() | statements))
    return edits


def drop_decorators(tree: Tree) -> Sequence[Edit]:
    """Drop a decorator."""
    return [removal(decorator) for decorator in tree.all(cst.Decorator)]


def drop_decorator_arguments(tree: Tree) -> Sequence[Edit]:
    """Replace `@triton.jit(…)` by `@triton.jit`."""
    decorators = [node for node in tree.all(cst.Decorator) if isinstance(node.decorator, cst.Call)]
    return [replacement(decorator, _without_call) for decorator in decorators]


def drop_annotations(tree: Tree) -> Sequence[Edit]:
    """Drop the types of parameters and results."""
    typed = [node for node in tree.all(cst.Param) if node.annotation is not None]
    functions = [node for node in tree.all(cst.FunctionDef) if node.returns is not None]
    return [
        *(replacement(node, lambda function: function.with_changes(returns=None)) for node in functions),
        *(replacement(node, lambda parameter: parameter.with_changes(annotation=None)) for node in typed),
    ]


def calls_of(tree: Tree, function: cst.FunctionDef) -> list[cst.Call]:
    """Return the calls and launches of a function."""
    return [call for call in tree.all(cst.Call) if called_name(call) == function.name.value]


def called_name(call: cst.Call) -> str | None:
    """Return the name in `name(…)` and in `name[grid](…)`."""
    callee = call.func.value if isinstance(call.func, cst.Subscript) else call.func
    return callee.value if isinstance(callee, cst.Name) else None


def _parameters(tree: Tree) -> list[_Parameter]:
    """Return the parameters of functions that are only called, and never with `*` or `**`."""
    parameters: list[_Parameter] = []
    for function in tree.functions:
        calls = calls_of(tree, function)
        mentions = tree.names(tree.module, NameRole.LOAD).get(function.name.value, [])
        bound = [_bind(function, call) for call in calls]
        if not calls or len(mentions) != len(calls) or any(binding is None for binding in bound):
            continue
        for node in (*function.params.params, *function.params.kwonly_params):
            arguments = [binding.get(node.name.value) for binding in bound if binding is not None]
            parameters.append(
                _Parameter(
                    function=function,
                    node=node,
                    arguments=tuple(argument for argument in arguments if argument is not None),
                    is_left_out=None in arguments,
                )
            )
    return parameters


def _bind(function: cst.FunctionDef, call: cst.Call) -> Mapping[str, cst.Arg] | None:
    """The argument of each parameter by its name; None for a call with `*` or `**`."""
    if any(argument.star for argument in call.args) or isinstance(function.params.star_arg, cst.Param):
        return None
    positional = [argument for argument in call.args if argument.keyword is None]
    names = [parameter.name.value for parameter in function.params.params]
    bound = dict(zip(names, positional, strict=False))
    return bound | {argument.keyword.value: argument for argument in call.args if argument.keyword is not None}


def _only_value(tree: Tree, parameter: _Parameter) -> cst.BaseExpression | None:
    values = [argument.value for argument in parameter.arguments]
    if parameter.is_left_out:
        if parameter.node.default is None:
            return None
        values.append(parameter.node.default)
    if len({tree.code(value) for value in values}) != 1 or not is_literal(values[0]):
        return None
    annotation = parameter.node.annotation
    is_constant = annotation is not None and "constexpr" in tree.code(annotation.annotation)
    is_special = isinstance(values[0], cst.Name)  # None, True and False are constants to Triton whatever the type says
    return values[0] if is_constant or is_special else None


def _without_call(decorator: cst.Decorator) -> Replacement:
    call = decorator.decorator
    return decorator.with_changes(decorator=call.func) if isinstance(call, cst.Call) else decorator
