"""The search for a smaller text: it filters candidates, and applies as many edits at once as possible."""

import time
from collections.abc import Callable, Sequence

from harness.findings.reduction.text_size import LINE, size, syntax, unknown_names, widest
from harness.findings.reduction.tree import Edit, Tree

Pass = Callable[[Tree], Sequence[Edit]]
"""A pass: it lists edits of a tree, the most promising first.  Edits of one pass can be combined freely."""


class Search:
    """The smallest interesting text so far, and the answers of the test."""

    def __init__(self, text: str, is_interesting: Callable[[str], bool], seconds: float) -> None:
        self.text = text
        self.tries = 0
        self._is_interesting = is_interesting
        self._answers = {text: True}
        self._refused: set[str] = set()
        """Syntax trees that are not interesting, whatever their layout."""
        self._end = time.monotonic() + seconds
        self._size = size(text)
        self._unknown = unknown_names(text)
        self._tree = Tree(text)

    @property
    def exhausted(self) -> bool:
        """True if the time is used up."""
        return time.monotonic() >= self._end

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
        if candidate is None or candidate == self.text:
            return False
        try:
            measured = size(candidate)
        except SyntaxError:
            return False
        if measured >= self._size or not self._may_run(candidate):
            return False
        meaning = syntax(candidate)
        if meaning in self._refused or not self.is_interesting(candidate):
            self._refused.add(meaning)
            return False
        self.text, self._size = candidate, measured
        return True

    def lay_out(self, layout: Callable[[str], str]) -> None:
        """Change the layout of the text, even if that makes it longer."""
        formatted = layout(self.text)
        if self.is_interesting(formatted):
            self.text, self._size = formatted, size(formatted)

    def is_interesting(self, candidate: str) -> bool:
        """Return the answer of the expensive test, which sees each text once."""
        if candidate not in self._answers:
            self.tries += 1
            self._answers[candidate] = self._is_interesting(candidate)
        return self._answers[candidate]

    def _parsed(self) -> Tree:
        if self._tree.text != self.text:
            self._tree = Tree(self.text)
        return self._tree

    def _may_run(self, candidate: str) -> bool:
        fits = widest(candidate) <= max(LINE, widest(self.text))
        return fits and unknown_names(candidate) <= self._unknown
