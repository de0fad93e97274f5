"""The text of the statement at a source line: the place of a failure that outlives edits of the file.

Line numbers change with every comment and every run of a formatter, so signatures name statements.  The text is that of
the parsed code: quotes, parentheses, line breaks and comments do not count.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from harness.model.ending import Source
from harness.model.verdict import GENERATED, stable_place
from harness.syntax_trees import module_of

LONGEST = 96
"""Characters of a statement that a signature shows; a digest stands for the rest."""
CUT = 80
DIGEST = 6

Function = ast.FunctionDef | ast.AsyncFunctionDef


def lasting_place(place: str, source: Source | None, kernel: str) -> str:
    """Return the place with the statement instead of the line; unchanged if the file cannot be read.

    The statements of a generated kernel differ between sizes and configs, as its lines do: its place has neither.
    """
    if source is None or str(source) not in place or GENERATED.match(kernel):
        return stable_place(kernel, place)
    statement = statement_of(source, kernel)
    return place.replace(str(source), f"{Path(source.file).name}: {statement}") if statement else place


def statement_of(source: Source, kernel: str = "") -> str:
    """Return the innermost statement at a line, without the blocks that it contains; empty if it is unknown.

    The function is named, unless it is the kernel.  Of equal statements in one function, those after the first are
    numbered: `tl.store(p, x) #2`.
    """
    path = Path(source.file)
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return ""
    function, text = _statements(path, changed).get(source.line, ("", ""))
    return f"{function}: {text}" if function and function != kernel and text else text


@lru_cache(maxsize=64)
def _statements(path: Path, changed: int) -> Mapping[int, tuple[str, str]]:
    """Return function and statement of each line of a file, which was last changed at that time."""
    del changed
    try:
        tree = module_of(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    lines: dict[int, tuple[str, str]] = {}
    alike = Counter[tuple[str, str]]()
    for function, statement in _within(tree, ""):
        name = function.rpartition(".")[2]
        text = _shortened(_head(statement))
        alike[function, text] += 1
        number = alike[function, text]
        text = f"{text} #{number}" if number > 1 else text
        last = statement.end_lineno or statement.lineno
        lines.update(dict.fromkeys(range(_first_line(statement), last + 1), (name, text)))
    return lines


def _within(block: ast.AST, function: str) -> Iterator[tuple[str, ast.stmt]]:
    """Return the statements below a node with the functions that contain them; an outer statement before its own."""
    for child in ast.iter_child_nodes(block):
        if isinstance(child, ast.stmt):
            yield function, child
        inner = f"{function}.{child.name}" if isinstance(child, Function | ast.ClassDef) else function
        yield from _within(child, inner)


def _first_line(statement: ast.stmt) -> int:
    decorators = statement.decorator_list if isinstance(statement, Function | ast.ClassDef) else []
    return min(node.lineno for node in (statement, *decorators))


def _head(statement: ast.stmt) -> str:
    """Return the statement on one line; of a compound one, what stands before its block."""
    if isinstance(statement, Function | ast.ClassDef):
        return f"def {statement.name}"
    return ast.unparse(statement).partition("\n")[0] if hasattr(statement, "body") else _joined(statement)


def _joined(statement: ast.stmt) -> str:
    return " ".join(ast.unparse(statement).split())


def _shortened(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:CUT]}… {hashlib.sha256(text.encode()).hexdigest()[:DIGEST]}"
