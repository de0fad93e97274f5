"""What users import from `harness`: the same names at run time, for editors, and for type checkers."""

import ast
import json
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

import harness
from harness.model.op import Op, OpSettings

PACKAGE = ast.parse(Path(harness.__file__).read_text(encoding="utf-8"))
TYPO = """
from harness import op, tensor, tokens


@op(dims={"T": tokens()}, inputs={"x": tensor("T")}, dtype=())
def norm(x: object) -> object:
    return x
"""


def imported_for_tools() -> dict[str, str]:
    """Return the module of each name that a type checker sees."""
    block = next(node for node in PACKAGE.body if isinstance(node, ast.If))
    return {
        alias.name: str(node.module) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def checked(text: str, folder: Path) -> list[str]:
    """Return what pyright says about a program."""
    (folder / "program.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return [diagnostic["message"] for diagnostic in json.loads(done.stdout)["generalDiagnostics"]]


def test_every_public_name_is_visible_to_tools_as_the_object_itself() -> None:
    seen = imported_for_tools()
    assert sorted(seen) == sorted(harness.__all__)
    for name, module in seen.items():
        assert getattr(harness, name) is getattr(import_module(module), name)


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'harness' has no attribute 'tokenz'"):
        _ = harness.tokenz  # pyright: ignore[reportAttributeAccessIssue] - what the test is about


def test_the_settings_of_an_op_are_its_fields() -> None:
    declared = {field.name for field in fields(Op)} - {
        "name",
        "suite",
        "call",
        "reference",
        "portable_name",
        "dims",
        "inputs",
    }
    assert set(OpSettings.__annotations__) == declared | {"compiled"}


@pytest.mark.slow
def test_a_type_checker_knows_every_name_and_an_unknown_argument(tmp_path: Path) -> None:
    program = "import harness\n" + "".join(f"reveal_type(harness.{name})\n" for name in harness.__all__)
    messages = checked(program, tmp_path)
    assert [message for message in messages if "Unknown" in message or "Any" in message.partition(" is ")[2][:5]] == []
    assert len(messages) == len(harness.__all__)
    assert any('No parameter named "dtype"' in message for message in checked(TYPO, tmp_path))
