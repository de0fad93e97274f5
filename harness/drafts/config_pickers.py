"""Functions that pick configs from JSON files by the name of the GPU, found in the source of a module."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

DEVICE = "device"
"""The placeholder for the name of the GPU, as a suite writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigPicker:
    """A function that reads a file of configs, whose name follows from its arguments."""

    name: str
    pattern: str
    """The name of its files, with placeholders: `configs/N={N},device_name={device}.json`."""

    def declaration(self, module: str) -> str:
        """Return the entry of `host_configs` for it."""
        return f'"{module}:{self.name}": config_tables("{self.pattern}", nearest="…")'


def config_pickers(tree: ast.Module) -> Iterator[ConfigPicker]:
    """Yield the functions of a module that do so; their helpers may make the name."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    naming = {name: pattern for name, node in functions.items() if (pattern := _pattern(node))}
    for name, node in functions.items():
        called = (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
        pattern = naming.get(name) or next((naming[other] for other in called if other in naming), "")
        if pattern and "json.load" in ast.unparse(node):
            yield ConfigPicker(name=name, pattern="/".join((*dict.fromkeys(_folders(node)), pattern)))


def _pattern(function: ast.FunctionDef) -> str:
    """Return the name of a file that an f-string makes; empty unless it has the name of a GPU."""
    parameters = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
    for part in ast.walk(function):
        if isinstance(part, ast.JoinedStr):
            text = re.sub(r"\*+", "*", "".join(_placed(value, parameters) for value in part.values))
            if text.endswith(".json") and f"{{{DEVICE}}}" in text:
                return text
    return ""


def _placed(part: ast.expr, parameters: set[str]) -> str:
    match part:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(value=ast.Name(id=name)) if "device" in name:
            return f"{{{DEVICE}}}"
        case ast.FormattedValue(value=ast.Name(id=name)) if name in parameters:
            return f"{{{name}}}"
        case _:
            return "*"


def _folders(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the folders that the function joins by their names."""
    for part in ast.walk(function):
        match part:
            case ast.Call(func=ast.Attribute(attr="join"), args=args):
                names = (arg.value for arg in args if isinstance(arg, ast.Constant))
                yield from (name for name in names if isinstance(name, str) and re.fullmatch(r"\w+", name))
            case _:
                pass
