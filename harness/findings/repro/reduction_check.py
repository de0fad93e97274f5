"""The check that a reduced program still shows the same bug."""

import ast
import re
import time
from pathlib import Path

from harness.repro_runtime import CheckRequest, FileRunner
from harness.repro_runtime.judge_file import at_fault
from harness.search.judge import Examination
from harness.syntax_trees import module_of


class ShowsSameFailure:
    """A predicate: the program shows the same message and ending as the whole one, and no other failure.

    Arguments may disappear.  Those that stay are made by the same statements, and the grid is the same.  With a smaller
    tensor, another bug can show the same message.
    """

    def __init__(self, source: str, whole: Examination, runner: FileRunner, folder: Path, more: str) -> None:
        """`whole` is the result of `source`; `more` is appended to every program."""
        self.tried = 0
        self._runner = runner
        self._folder = folder
        self._more = more
        self._whole = whole
        self._message = _message(whole, runner.request)
        self._oracles = {fail.oracle for fail in whole.fails}
        self._shapes = _shapes(whole)
        self._grids = [launch.grid for launch in whole.run.launches]
        self._setup = argument_code(source)
        self._digests: dict[str, str] | None = None
        self._known: dict[str, bool] = {}

    def keep_results(self) -> None:
        """Also require results that are equal bit for bit."""
        self._digests = _digests(self._whole)

    def __call__(self, text: str) -> bool:
        """Check each text once."""
        if text not in self._known:
            self._known[text] = argument_code(text) <= self._setup and self._check(text)
        return self._known[text]

    def _check(self, text: str) -> bool:
        self.tried += 1
        examined = self._runner.check(written(text + self._more, self._folder))
        return (
            _message(examined, self._runner.request) == self._message
            and type(examined.run.ending) is type(self._whole.run.ending)
            and {fail.oracle for fail in examined.fails} <= self._oracles
            and [launch.grid for launch in examined.run.launches] == self._grids
            and _shapes(examined) == self._shapes
            and (self._digests is None or _digests(examined) == self._digests)
        )


def argument_code(text: str) -> frozenset[str]:
    """Return the code with which `run` makes arguments: statements before the launch, and torch calls inside it."""
    functions = (node for node in module_of(text).body if isinstance(node, ast.FunctionDef))
    body = next((node.body for node in functions if node.name == "run"), [])
    return frozenset(ast.unparse(node) for statement in body for node in _making(statement))


def _making(statement: ast.stmt) -> list[ast.AST]:
    if isinstance(statement, ast.Return):
        return []
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return [statement]
    launch = statement.value
    if not isinstance(launch.func, ast.Subscript):
        return [statement]
    passed = [*launch.args, *(keyword.value for keyword in launch.keywords)]
    return [
        argument
        for argument in passed
        if any(isinstance(part, ast.Name) and part.id == "torch" for part in ast.walk(argument))
    ]


def written(text: str, folder: Path) -> Path:
    """Write the program to a new file: Triton reads a kernel's source from the file that defines it."""
    path = folder / f"program_{time.monotonic_ns()}.py"
    path.write_text(text, encoding="utf-8")
    return path


def _message(examined: Examination, request: CheckRequest) -> str | None:
    """Return the oracle's message without source lines, which move."""
    fail = at_fault(examined, request)
    return None if fail is None else re.sub(r"[\w.-]+\.py:\d+", "", fail.message)


def _shapes(examined: Examination) -> dict[str, tuple[int, ...]]:
    return {result.name: result.shape for result in examined.run.results}


def _digests(examined: Examination) -> dict[str, str]:
    return {result.name: result.digest for result in examined.run.results}
