"""Python sources as syntax trees, in any thread.

CPython 3.11 to 3.12 raises SystemError, "AST constructor recursion depth mismatch", if another thread makes a tree
meanwhile: a garbage collection may run finalizers, and these let other threads run.
"""

import ast
import os
from threading import RLock

_lock = RLock()


def module_of(source: str | bytes, filename: str = "<unknown>") -> ast.Module:
    """Parse the text of a module.

    Raises:
        SyntaxError, ValueError: it is no Python.
    """
    with _lock:
        return ast.parse(source, filename)


def expression_of(text: str) -> ast.expr:
    """Parse one expression.

    Raises:
        SyntaxError, ValueError: it is none.
    """
    with _lock:
        return ast.parse(text, mode="eval").body


def _forget_lock() -> None:
    global _lock  # noqa: PLW0603 - the thread that held it is not in the child
    _lock = RLock()


os.register_at_fork(after_in_child=_forget_lock)
