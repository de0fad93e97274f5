"""Layout of generated code: line breaks in long statements, and blank lines between definitions."""

import ast
import re
import textwrap
from collections.abc import Iterable

from harness.syntax_trees import module_of

COLUMNS = 110
INDENT = "    "


def laid_out(statement: str, indent: int = 0) -> str:
    """Break a simple statement that is too long for one line at its outermost brackets, and fill the lines.

    Lists of numbers are filled like paragraphs.  A statement without brackets stays as it is.
    """
    inner = statement.lstrip()
    pad = INDENT * indent + statement[: len(statement) - len(inner)]
    statement = inner
    if len(pad) + len(statement) <= COLUMNS:
        return pad + statement
    if (edges := _widest(statement)) is None:
        return pad + statement
    start, end = edges
    lines = [f"{pad}{statement[: start + 1]}"]
    line = ""
    for part in _parts(statement[start + 1 : end]):
        if line and len(pad) + len(INDENT) + len(line) + len(part) + 2 > COLUMNS:
            lines += _filled(line, pad + INDENT)
            line = ""
        line += f"{' ' if line else ''}{part},"
    return "\n".join((*lines, *_filled(line.removesuffix(","), pad + INDENT), f"{pad}{statement[end:]}"))


def retouched(text: str, function: str) -> str:
    """Lay out the body of a generated function again.  Its comments are lost."""
    tree = module_of(text)
    lines = text.splitlines()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            body = [laid_out(line, 1) for each in node.body for line in _statement(each)]
            lines[node.lineno : node.end_lineno] = "\n".join(body).splitlines()
    return "\n".join(lines) + "\n"


def joined(blocks: Iterable[str]) -> str:
    """Join definitions with two blank lines between them; one-line definitions have none."""
    text = ""
    was_short = True
    for block in (block.strip("\n") for block in blocks):
        is_short = "\n" not in block
        if text:
            text += "\n" if is_short and was_short else "\n\n\n"
        text += block
        was_short = is_short
    return text


def needed_imports(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the import statements of the standard library that the lines need."""
    words = set(re.findall(r"\w+", "\n".join(lines)))
    numbers = [name for name in ("inf", "nan") if name in words]
    modules = [f"import {name}" for name in ("base64", "zlib") if name in words]
    return (*modules, *([f"from math import {', '.join(numbers)}"] if numbers else []))


def _statement(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return [f'"""{node.value.value}"""']
    text = ast.unparse(node)
    for part in ast.walk(node):
        if isinstance(part, ast.Subscript) and isinstance(
            part.slice, ast.Tuple
        ):  # `ast.unparse` drops the parentheses of `kernel[(2,)]`
            places = ast.unparse(part).removeprefix(ast.unparse(part.value))[1:-1]
            text = text.replace(ast.unparse(part), f"{ast.unparse(part.value)}[({places})]")
    return (text if '"' in text else text.replace("'", '"')).splitlines()


def _filled(line: str, pad: str) -> list[str]:
    """Break a part that is too long itself, such as a list of numbers, at its blanks."""
    return textwrap.wrap(
        line,
        COLUMNS,
        initial_indent=pad,
        subsequent_indent=f"{pad} ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _widest(statement: str) -> tuple[int, int] | None:
    """Return the positions of the outermost pair of brackets that encloses most."""
    best, opened, start = None, 0, 0
    quote = ""
    for place, sign in enumerate(statement):
        if quote or sign in "'\"":
            quote = "" if sign == quote else quote or sign
        elif sign in "([{":
            start = start if opened else place
            opened += 1
        elif sign in ")]}":
            opened -= 1
            if not opened and (best is None or place - start > best[1] - best[0]):
                best = (start, place)
    return best


def _parts(inside: str) -> list[str]:
    """Split at the commas of the first level."""
    parts, opened, last, quote = list[str](), 0, 0, ""
    for place, sign in enumerate(inside):
        if quote or sign in "'\"":
            quote = "" if sign == quote else quote or sign
        elif sign in "([{":
            opened += 1
        elif sign in ")]}":
            opened -= 1
        elif sign == "," and not opened:
            parts.append(inside[last:place].strip())
            last = place + 1
    return [*parts, inside[last:].strip()] if inside[last:].strip() else parts
