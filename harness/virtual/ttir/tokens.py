"""TTIR text as tokens, and a place among them: where the parser stands, and what to say when it cannot go on."""

import re
from collections.abc import Iterator

from harness.errors import CannotExecute

_NESTED = r"<(?:[^<>]|<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>)*>"
_TOKEN = re.compile(
    rf"""(?>\s*(?://[^\n]*\s*)*)(?:
    (?P<separator>[()\[\]{{}},:=])
  | (?P<loc>loc\((?:[^()"]|"[^"]*"|\((?:[^()"]|"[^"]*"|\((?:[^()"]|"[^"]*"|\([^()]*\))*\))*\))*\))
  | (?P<value>%[\w$.-]+(?:[:\#]\d+)?)
  | (?P<type>(?:tensor|!tt\.ptr|!tt\.tensordesc|!ttg\.[\w.]+){_NESTED}|!tt\.\w+)
  | (?P<dense>dense{_NESTED})
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<arrow>->)
  | (?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?))
  | (?P<word>[A-Za-z_][\w.$]*(?:{_NESTED})?)
  | (?P<label>\^\w+)
  | (?P<symbol>@(?:[\w.$]+|"[^"]*"))
  | (?P<alias>\#[\w.]+)
  | (?P<punctuation>[<>*?+-])
  )""",
    re.VERBOSE,
)
_BLANK = re.compile(r"\s*(?://[^\n]*\s*)*")
_LINE = re.compile(r"^[ \t]*((?:%[\w$.-]+ = )?[a-z]\w*\.[^\n\"^/]*) (loc\(\#\w*\))$", re.MULTILINE)
"""An operation without regions, successors and strings, as nearly all are printed: on a line of its own."""
LINE = "line"
"""The kind of a token that is such an operation; its location is the next token."""

Token = tuple[str, str]
END: Token = ("end", "")


class Tokens:
    """The tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: list[int] = []
        """Where each token ends in the text."""
        self._tokens: list[Token] = list(self._tokenize(text))
        self._at = 0

    def _tokenize(self, text: str) -> Iterator[Token]:
        position, end = 0, len(text.rstrip())
        for found in _LINE.finditer(text):
            yield from self._tokenize_part(text, position, found.start())
            position = found.end()
            self._ends += (found.end(1), position)
            yield LINE, found[1]
            yield "loc", found[2]
        yield from self._tokenize_part(text, position, end)
        self._ends.append(end)
        yield END

    def _tokenize_part(self, text: str, position: int, end: int) -> Iterator[Token]:
        match = _TOKEN.match
        while position < end:
            found = match(text, position, end)
            if found is None:
                if _BLANK.fullmatch(text, position, end):
                    break
                line = text.count("\n", 0, position) + 1
                raise CannotExecute(f"TTIR that cannot be read at its line {line}: {text[position : position + 60]!r}")
            position = found.end()
            kind = found.lastgroup or ""
            self._ends.append(position)
            yield kind, found[kind]

    def _spell_out(self) -> None:
        """Put the tokens of the operation where the parser stands in the place of the one token that it is."""
        text, end = self._tokens[self._at][1], self._ends[self._at]
        ends, self._ends = self._ends, []
        tokens = list(self._tokenize_part(self._text, end - len(text), end))
        self._tokens[self._at : self._at + 1] = tokens
        ends[self._at : self._at + 1] = self._ends
        self._ends = ends

    def cannot_read(self, expected: str) -> CannotExecute:
        """What was expected where the parser stands."""
        at = min(self._at, len(self._tokens) - 1)
        seen = " ".join(token[1] for token in self._tokens[at : at + 8]) or "the end"
        line = self._text.count("\n", 0, self._ends[at]) + 1
        return CannotExecute(f"TTIR that cannot be read at its line {line}: expected {expected} before {seen!r}")

    def _peek(self, ahead: int = 0) -> Token:
        index = self._at + ahead
        return self._tokens[index] if index < len(self._tokens) else END

    def _next(self) -> Token:
        token = self._tokens[self._at]
        if token == END:
            raise self.cannot_read("more")
        self._at += 1
        return token

    def _accept(self, text: str) -> bool:
        if self._tokens[self._at][1] == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self.cannot_read(repr(text))
