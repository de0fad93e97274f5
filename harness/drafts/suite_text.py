"""The text of a suite: the one writer of drafts, and of the suites that the harness writes for itself.

A definition that is not known raises `NotImplementedError`: cases of its op then run, their memory accesses are
checked, and the search says which definition to write.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

LONGEST_LINE = 100
IMPORTABLE = (
    "DType",
    "Dim",
    "Draw",
    "beside",
    "groups",
    "integers",
    "op",
    "segments",
    "sizes",
    "tensor",
    "tokens",
    "width",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpText:
    """The pieces of an op's text.  Every value is source code."""

    name: str
    notes: Sequence[str] = ()
    """Comments above it."""
    dims: Mapping[str, str] = field(default_factory=dict[str, str])
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    more: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further arguments of `op`."""
    passed: Sequence[str] = ()
    """What the op's function takes: inputs, dims and options."""
    body: Sequence[str]
    defined: Sequence[str] = ()
    """What the definition takes."""
    definition: Sequence[str]

    def __str__(self) -> str:
        declared = {"dims": in_braces(self.dims), "inputs": in_braces(self.inputs), **self.more}
        return "\n".join(
            (
                *(f"# {note}" for note in self.notes),
                "@op(",
                *(f"    {name}={value}," for name, value in declared.items()),
                ")",
                f"def {self.name}({', '.join(self.passed)}):",
                *_indented(self.body),
                "\n",
                f"@{self.name}.reference",
                f"def {self.name}_definition({', '.join(self.defined)}):",
                *_indented(self.definition),
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteText:
    """The pieces of a suite file."""

    about: str
    """Its docstring."""
    imports: Sequence[str] = ()
    """Statements before the import of `harness.suite`."""
    top: Sequence[str] = ()
    """Statements before the ops."""
    ops: Sequence[OpText]

    def __str__(self) -> str:
        body = "\n\n\n".join(map(str, self.ops))
        used = ", ".join(name for name in IMPORTABLE if re.search(rf"\b{name}[(.]", body))
        imports = (*self.imports, *([""] if self.imports else []), f"from harness.suite import {used}")
        return "\n".join(
            (f'"""{self.about}"""', "", *imports, *(["", *self.top] if self.top else []), "", "", body, "")
        )

    @property
    def undefined(self) -> tuple[tuple[str, int], ...]:
        """The ops whose definition is to be written, with its line."""
        lines = [line.strip() for line in str(self).splitlines()]
        return tuple(
            (op.name, lines.index(missing(op.name)) + 1) for op in self.ops if missing(op.name) in op.definition
        )


def draft_text(origin: str, file: str) -> str:
    """Return the docstring of a draft; `file` is the suite's name in commands."""
    return f"""\
A draft {origin}

    harness fuzz {file}

The library, torch and Triton are imported inside the functions: the parent process reads this file too.
"""


def missing(name: str) -> str:
    """Return the definition that is still to be written."""
    return f'raise NotImplementedError("the definition of {name} in differentiable torch")'


def in_braces(texts: Mapping[str, str]) -> str:
    """Return the source of a dict, on one line or with a line for each item."""
    items = [f'"{name}": {text}' for name, text in texts.items()]
    line = f"{{{', '.join(items)}}}"
    return line if len(line) <= LONGEST_LINE else "".join(("{", *(f"\n        {item}," for item in items), "\n    }"))


def _indented(lines: Iterable[str]) -> Iterable[str]:
    return (f"    {line}".rstrip() for line in lines)
