"""The contracts of before and after load, declare the same ops, and are counted by lines of code."""

import ast
from pathlib import Path

import pytest

from harness.suite import load_suite
from studies.contracts.__main__ import FOLDER, lines_of_code

NAMES = sorted(path.name for path in (FOLDER / "after").glob("*.py"))
NEW_NAMES = frozenset({"attention", "built", "dequantised", "drawn_from", "owned", "ragged", "segment_ids", "sizes"})
NEW_ARGUMENTS = frozenset({"ascending", "broadcasts", "contiguous", "defined", "distinct", "surplus"})


@pytest.mark.parametrize("name", NAMES)
def test_both_files_of_a_contract_declare_the_same_ops(name: str) -> None:
    before, after = (load_suite(str(FOLDER / age / name), Path()) for age in ("before", "after"))
    for one, other in zip(before, after, strict=True):
        assert (one.name, one.dims, one.options, one.dtypes) == (other.name, other.dims, other.options, other.dtypes)


@pytest.mark.parametrize("name", NAMES)
def test_contracts_of_before_use_no_newer_declaration(name: str) -> None:
    tree = ast.parse((FOLDER / "before" / name).read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    declared = {"op", "tensor", "integers", "segments"}
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
    arguments = {word.arg for call in calls if ast.unparse(call.func) in declared for word in call.keywords}
    assert (imported & NEW_NAMES, arguments & NEW_ARGUMENTS) == (frozenset(), frozenset())


def test_comments_docstrings_and_blank_lines_are_no_code() -> None:
    assert lines_of_code('"""A file.\n\nMore.\n"""\n\n# a comment\nx = [\n    1,  # one\n]\n') == 3
