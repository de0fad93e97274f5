"""The search for a smaller text: which candidates are worth a try, and how many edits can be taken at once."""

import time
from collections.abc import Callable, Sequence

from harness.findings.reduction.text_size import LINE, size, syntax, unknown_names, widest
from harness.findings.reduction.tree import Edit, Tree

Pass = Callable[[Tree], Sequence[Edit]]
"""Offers edits of a tree, the most promising first; each may be taken with any others of the same pass."""


class Search:
    """The smallest text so far that still shows what it must, and every answer given."""

    def __init__(self, text: str, shows: Callable[[str], bool], seconds: float) -> None:
        self.text = text
        self.tries = 0
        self._shows = shows
        self._answers = {text: True}
        self._refused: set[str] = set()
        """Syntax that does not show it, however it is laid out."""
        self._end = time.monotonic() + seconds
        self._size = size(text)
        self._unknown = unknown_names(text)
        self._tree = Tree(text)

    @property
    def exhausted(self) -> bool:
        """Whether the time is used up."""
        return time.monotonic() >= self._end

    def take(self, offer: Pass, *, by_halves: bool = True) -> None:
        """Take as many of a pass's edits as possible: all at once, or else halves, down to single ones.

        Not by halves costs half as many questions where little is left to take.
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
        """Whether the candidate is smaller and still shows it; then it is the text from now on."""
        if candidate is None or candidate == self.text:
            return False
        try:
            measured = size(candidate)
        except SyntaxError:
            return False
        if measured >= self._size or not self._may_run(candidate):
            return False
        meaning = syntax(candidate)
        if meaning in self._refused or not self.shows(candidate):
            self._refused.add(meaning)
            return False
        self.text, self._size = candidate, measured
        return True

    def lay_out(self, layout: Callable[[str], str]) -> None:
        """Write the text in another layout, which is no matter of size."""
        formatted = layout(self.text)
        if self.shows(formatted):
            self.text, self._size = formatted, size(formatted)

    def shows(self, candidate: str) -> bool:
        """What the expensive question answers; asked once for each text."""
        if candidate not in self._answers:
            self.tries += 1
            self._answers[candidate] = self._shows(candidate)
        return self._answers[candidate]

    def _parsed(self) -> Tree:
        if self._tree.text != self.text:
            self._tree = Tree(self.text)
        return self._tree

    def _may_run(self, candidate: str) -> bool:
        fits = widest(candidate) <= max(LINE, widest(self.text))
        return fits and unknown_names(candidate) <= self._unknown
