"""What a reduced program must show to be still about the same bug."""

import ast
import re
import time
from pathlib import Path

from harness.repro_runtime import Asked, FileRunner
from harness.repro_runtime.judge_file import at_fault
from harness.search.judge import Examination


class Shows:
    """Whether a program shows the same as the whole one: the same sentence, the same ending, and nothing else.

    Arguments may go, but those that stay are made as they were, and the grid is the same: with a tensor made smaller,
    another bug can show the same sentence.
    """

    def __init__(self, source: str, whole: Examination, bench: FileRunner, folder: Path, more: str) -> None:
        """`whole` is what `source` shows; `more` stands in every file after what is reduced."""
        self.tried = 0
        self._bench = bench
        self._folder = folder
        self._more = more
        self._whole = whole
        self._sentence = _sentence(whole, bench.asked)
        self._others = {fail.oracle for fail in whole.fails}
        self._shapes = _shapes(whole)
        self._grids = [launch.grid for launch in whole.run.launches]
        self._made = made(source)
        self._digests: dict[str, str] | None = None
        self._known: dict[str, bool] = {}

    def keep_results(self) -> None:
        """Ask for equal results, bit for bit, too."""
        self._digests = _digests(self._whole)

    def __call__(self, text: str) -> bool:
        """Look once at each text."""
        if text not in self._known:
            self._known[text] = made(text) <= self._made and self._look(text)
        return self._known[text]

    def _look(self, text: str) -> bool:
        self.tried += 1
        found = self._bench.glance(written(text + self._more, self._folder))
        return (
            _sentence(found, self._bench.asked) == self._sentence
            and type(found.run.ending) is type(self._whole.run.ending)
            and {fail.oracle for fail in found.fails} <= self._others
            and [launch.grid for launch in found.run.launches] == self._grids
            and _shapes(found) == self._shapes
            and (self._digests is None or _digests(found) == self._digests)
        )


def made(text: str) -> frozenset[str]:
    """How `run` makes what it launches with: its statements but for the launch, or what of torch the launch holds."""
    functions = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
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
    given = [*launch.args, *(keyword.value for keyword in launch.keywords)]
    return [one for one in given if any(isinstance(part, ast.Name) and part.id == "torch" for part in ast.walk(one))]


def written(text: str, folder: Path) -> Path:
    """A file of its own for every program: Triton reads a kernel's source from where it was defined."""
    path = folder / f"program_{time.monotonic_ns()}.py"
    path.write_text(text, encoding="utf-8")
    return path


def _sentence(examined: Examination, asked: Asked) -> str | None:
    """What the oracle says, without the place in the file, which moves."""
    fail = at_fault(examined, asked)
    return None if fail is None else re.sub(r"[\w.-]+\.py:\d+", "", fail.message)


def _shapes(examined: Examination) -> dict[str, tuple[int, ...]]:
    return {result.name: result.shape for result in examined.run.results}


def _digests(examined: Examination) -> dict[str, str]:
    return {result.name: result.digest for result in examined.run.results}
