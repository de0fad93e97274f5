"""What the source of a module says about its names: signatures, docstrings, and the docstrings of fields."""

import ast
import inspect
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

SECTION = re.compile(r"^(Args|Raises):$", re.MULTILINE)
ITEM = re.compile(r"^(\w[\w, ]*): ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDoc:
    """One field of a class, or one member of an enum."""

    name: str
    type: str
    """Empty for a member of an enum."""
    value: str
    """The default, or the value of a member; empty if there is none."""
    text: str


@lru_cache(maxsize=64)
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def definition(of: Any) -> ast.FunctionDef | ast.ClassDef:
    """Return the definition of a function or class at the top of its module."""
    path = Path(inspect.getfile(of))
    return next(
        node
        for node in _tree(path).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == of.__name__
    )


def signature(of: Any) -> str:
    """Return name, parameters and result of a function, as its source writes them."""
    node = definition(of)
    assert isinstance(node, ast.FunctionDef)
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){result}"


def fields_of(of: type[Any]) -> tuple[FieldDoc, ...]:
    """Return the fields of a class with their docstrings, in the order of the source."""
    node = definition(of)
    found: list[FieldDoc] = []
    for here, after in zip(node.body, [*node.body[1:], None], strict=True):
        text = _text_of(after)
        match here:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind, value=value):
                default = ast.unparse(value) if value else ""
                found.append(FieldDoc(name=name, type=ast.unparse(kind), value=_readable(default), text=text))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.append(FieldDoc(name=name, type="", value=ast.unparse(value), text=text))
            case _:
                pass
    return tuple(found)


def _text_of(node: ast.stmt | None) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
        case _:
            return ""


def _readable(default: str) -> str:
    """Return a default as a caller would write it."""
    for factory, value in (("tuple", "()"), ("frozenset", "frozenset()"), ("dict", "{}")):
        if default.startswith(f"field(default_factory={factory}"):
            return value
    return default


def paragraphs(of: Any) -> str:
    """Return the docstring of a function or class as Markdown; its sections become lists."""
    text = inspect.getdoc(of) or ""
    body, *sections = SECTION.split(text)
    lists = (_section(*pair) for pair in zip(sections[::2], sections[1::2], strict=True))
    return "\n\n".join((_one_line_each(body), *lists))


def _section(title: str, text: str) -> str:
    _, *items = ITEM.split(inspect.cleandoc(text))
    lines = (f"- `{name}`: {' '.join(said.split())}" for name, said in zip(items[::2], items[1::2], strict=True))
    heading = "Arguments:" if title == "Args" else "Raises:"
    return "\n".join((heading, "", *lines))


def _one_line_each(text: str) -> str:
    """Return paragraphs, each on one line."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip()))
