"""The search for a smaller text: it filters candidates, and applies as many edits at once as possible."""

import time
from collections.abc import Callable, Sequence

from harness.findings.reduction.text_size import LINE, size, syntax, unknown_names, widest
from harness.findings.reduction.tree import Edit, Tree
from harness.search.problem import Problem

Pass = Callable[[Tree], Sequence[Edit]]
"""A pass: it lists edits of a tree, the most promising first.  Edits of one pass can be combined freely."""


class Search:
    """The smallest interesting text so far, and the answers of the test."""

    def __init__(self, text: str, is_interesting: Callable[[str], bool], seconds: float) -> None:
        self._problem = Problem(text, is_interesting, size=size, identity=str)
        self._problem.allow(until=time.monotonic() + seconds)
        self._refused: set[str] = set()
        """Syntax trees that are not interesting, whatever their layout."""
        self._unknown = unknown_names(text)
        self._tree = Tree(text)

    @property
    def text(self) -> str:
        return self._problem.best

    @property
    def tries(self) -> int:
        return self._problem.runs

    @property
    def exhausted(self) -> bool:
        """True if the time is used up."""
        return self._problem.is_exhausted

    def take(self, offer: Pass, *, by_halves: bool = True) -> None:
        """Apply as many edits of a pass as possible: all at once, then halves, down to single ones.

        With `by_halves=False` it goes from all to single ones at once.  That takes half the tries if few edits succeed.
        """
        if self.exhausted:
            return
        tree = self._parsed()
        taken: list[Edit] = []
        chunks = [list(offer(tree))]
        while chunks and not self.exhausted:
            chunk = chunks.pop()
            if self.accepts(tree.edited([*taken, *chunk])):
                taken += chunk
            elif len(chunk) > 1:
                middle = len(chunk) // 2
                chunks += [chunk[middle:], chunk[:middle]] if by_halves else [[edit] for edit in reversed(chunk)]

    def accepts(self, candidate: str | None) -> bool:
        """Return True if the candidate is smaller and interesting; then it becomes the text."""
        try:
            if candidate is None or not self._problem.is_simpler(candidate) or not self._may_run(candidate):
                return False
        except SyntaxError:
            return False
        meaning = syntax(candidate)
        if meaning in self._refused or not self._problem.fails(candidate):
            self._refused.add(meaning)
            return False
        return True

    def lay_out(self, layout: Callable[[str], str]) -> None:
        """Change the layout of the text, even if that makes it longer."""
        self._problem.take(layout(self.text))

    def _parsed(self) -> Tree:
        if self._tree.text != self.text:
            self._tree = Tree(self.text)
        return self._tree

    def _may_run(self, candidate: str) -> bool:
        fits = widest(candidate) <= max(LINE, widest(self.text))
        return fits and unknown_names(candidate) <= self._unknown
