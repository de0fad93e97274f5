"""The lines of functions are those that Python's own tokenizer finds."""

import inspect
import textwrap
from pathlib import Path
from typing import NoReturn

import hypothesis.core
import pytest
import triton.language.standard

from harness.workers.zygote.source_blocks import BEGINNINGS, getblock

TRICKY = {
    "signature": "@jit(\n    x,\n)\ndef f(\n    a,\n):\n    return a\n\n\nb = 1\n",
    "decorators": (
        "@a({\n    1: 2,\n})\n@b(\n    [\n1\n],\n)\n@c(\n)\n@d\n# note\ndef f(\n    a,\n):\n    return a\n\n\nb = 1\n"
    ),
    "string": 'def f():\n    """\nat the margin\n    """\n    return """\nx"""\nb = 1\n',
    "comments": "def f():\n    a = 1\n# at the margin\n    return a\n    # inside\n  # between\n# outside\nb = 1\n",
    "comment in a string": 'def f():\n    return """\n    # no comment"""\n# outside\nb = 1\n',
    "parenthesis": "def f():\n    return (\n1\n)\nb = 1\n",
    "continuation": "def f():\n    return 1 + \\\n2\nb = 1\n",
    "one line": "def f(): return 1\nb = 1\n",
    "nested": "    def f():\n        return 1\n    b = 1\n",
    "end of file": "def f():\n    return 1",
    "class": "class A:\n    x = 1\n\n    def f(self):\n        return 1\n\n\nasync def g():\n    return 1\n",
    "lambda": "f = lambda: 1\nb = 1\n",
}


@pytest.mark.parametrize("name", TRICKY)
def test_a_block_ends_where_the_tokenizer_ends_it(name: str) -> None:
    lines = TRICKY[name].splitlines(keepends=True)
    assert getblock(lines) == list(inspect.getblock(lines))


@pytest.mark.parametrize("module", [textwrap, hypothesis.core, triton.language.standard])
def test_blocks_of_real_files_are_those_of_the_tokenizer(module: object) -> None:
    lines = Path(inspect.getfile(module)).read_text(encoding="utf-8").splitlines(keepends=True)  # pyright: ignore[reportArgumentType]
    begins = [at for at, line in enumerate(lines) if line.startswith(BEGINNINGS)]
    assert begins
    for at in begins:
        assert getblock(lines[at:]) == list(inspect.getblock(lines[at:])), at


def test_a_kernel_under_several_long_decorators_needs_no_tokenizer() -> None:
    def refuse(_: object) -> NoReturn:
        raise AssertionError("tokenized")

    lines = TRICKY["decorators"].splitlines(keepends=True)
    assert getblock(lines, refuse)[-1] == "    return a\n"
