"""The text of an exception that leaves out its reason: what was asserted, and what caused a chain of exceptions."""

import ast
import linecache
import traceback

from harness.syntax_trees import module_of


def text_of(error: BaseException) -> str:
    """Return the exception's text; if it has none, the code of the statement that raised it."""
    return str(error) if str(error).strip() else _raising_code(error)


def cause_of(error: BaseException) -> str:
    """Return the class and the text of the exception that began the chain of causes.

    Empty if there is no chain, or if the exception's own text ends with that of its cause.  Triton wraps an error in
    a function of a kernel in another one for the line of the call, which has no text of its own.
    """
    first = error
    while (cause := first.__cause__ or _quoted(first)) is not None:
        first = cause
    if first is error:
        return ""
    text = text_of(first)
    return "" if str(error).strip().endswith(text) else f"{type(first).__name__}: {text}"


def _quoted(error: BaseException) -> BaseException | None:
    """Return the exception that this one replaces and names by its class alone, as in `AssertionError()`."""
    replaced = error.__context__
    if replaced is None or str(replaced).strip() or not str(error).endswith(repr(replaced)):
        return None
    return replaced


def _raising_code(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or not frames[-1].lineno:
        return ""
    line = frames[-1].lineno
    source = "".join(linecache.getlines(frames[-1].filename))
    try:
        statements = [node for node in ast.walk(module_of(source)) if isinstance(node, ast.Assert | ast.Raise)]
    except SyntaxError:  # no Python, for example a file that changed since
        return frames[-1].line or ""
    around = [node for node in statements if node.lineno <= line <= (node.end_lineno or node.lineno)]
    return ast.unparse(around[-1]) if around else frames[-1].line or ""
