"""TTIR text as tokens, and the parser's position among them, with the error for text that cannot be read."""

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
"""An operation without regions, successors and strings.  Nearly all operations are printed like this, on one line."""
LINE = "line"
"""The kind of a token that is such a whole operation.  Its location is the next token."""

Token = tuple[str, str]
END: Token = ("end", "")


class Tokens:
    """The tokens of one text, and a position among them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: list[int] = []
        """The end of each token in the text."""
        self._tokens: list[Token] = list(self._tokenize(text))
        self._position = 0

    def _tokenize(self, text: str) -> Iterator[Token]:
        position, end = 0, len(text.rstrip())
        for line in _LINE.finditer(text):
            yield from self._tokenize_part(text, position, line.start())
            position = line.end()
            self._ends += (line.end(1), position)
            yield LINE, line[1]
            yield "loc", line[2]
        yield from self._tokenize_part(text, position, end)
        self._ends.append(end)
        yield END

    def _tokenize_part(self, text: str, position: int, end: int) -> Iterator[Token]:
        match = _TOKEN.match
        while position < end:
            token = match(text, position, end)
            if token is None:
                if _BLANK.fullmatch(text, position, end):
                    break
                line = text.count("\n", 0, position) + 1
                raise CannotExecute(f"TTIR that cannot be read at its line {line}: {text[position : position + 60]!r}")
            position = token.end()
            kind = token.lastgroup or ""
            self._ends.append(position)
            yield kind, token[kind]

    def _expand_line(self) -> None:
        """Replace the `LINE` token at the parser's position with the tokens of its operation."""
        text, end = self._tokens[self._position][1], self._ends[self._position]
        ends, self._ends = self._ends, []
        tokens = list(self._tokenize_part(self._text, end - len(text), end))
        self._tokens[self._position : self._position + 1] = tokens
        ends[self._position : self._position + 1] = self._ends
        self._ends = ends

    def cannot_read(self, expected: str) -> CannotExecute:
        """Return the error for text that is not what the parser expects at its position."""
        at = min(self._position, len(self._tokens) - 1)
        seen = " ".join(token[1] for token in self._tokens[at : at + 8]) or "the end"
        line = self._text.count("\n", 0, self._ends[at]) + 1
        return CannotExecute(f"TTIR that cannot be read at its line {line}: expected {expected} before {seen!r}")

    def _peek(self, ahead: int = 0) -> Token:
        index = self._position + ahead
        return self._tokens[index] if index < len(self._tokens) else END

    def _next(self) -> Token:
        token = self._tokens[self._position]
        if token == END:
            raise self.cannot_read("more")
        self._position += 1
        return token

    def _accept(self, text: str) -> bool:
        if self._tokens[self._position][1] == text:
            self._position += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self.cannot_read(repr(text))
