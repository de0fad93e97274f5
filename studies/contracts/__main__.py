"""`python -m studies.contracts`: count the lines of code that each contract takes, before and after."""

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
NO_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


def lines_of_code(text: str) -> int:
    """Return the number of lines that hold code: no blank ones, comments and docstrings."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    occupied = {
        line for token in tokens if token.type not in NO_CODE for line in range(token.start[0], token.end[0] + 1)
    }
    return len(occupied - set(_docstring_lines(ast.parse(text))))


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            yield from range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1)


def table() -> str:
    """Return a Markdown table: a row for each contract."""
    rows = ["| contract | before | after | share |", "| -- | -- | -- | -- |"]
    for after in sorted((FOLDER / "after").glob("*.py")):
        counts = [lines_of_code((FOLDER / age / after.name).read_text(encoding="utf-8")) for age in ("before", "after")]
        rows.append(f"| `{after.stem}` | {counts[0]} | {counts[1]} | {100 * counts[1] / counts[0]:.0f} % |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
