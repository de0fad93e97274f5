"""Private names of torch, Inductor, Triton and JAX stand in the rooms of their engines alone."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import torch

from harness.engines.torch import torch_seam
from harness.errors import MissingPart

HARNESS = Path(torch_seam.__file__).parents[2]
SEAMS = {
    "torch": "engines/torch",
    "torch._inductor": "engines/torch/inductor",
    "torch._dynamo": "engines/torch/inductor",
    "jax": "engines/jax",
    "jaxlib": "engines/jax",
    "jax_triton": "engines/jax",
}
"""The rooms of private modules.  Triton's are seen by the tests of its own seam."""
OTHER_ATTRIBUTES = {
    "_exit": "os: a documented function",
    "_current_frames": "sys: a documented function",
    "_asdict": "named tuples: a documented method",
    "_local_scalar_dense": "aten's own name of an operator",
    "_to_copy": "aten's own name of an operator",
    "_efficientzerotensor": "aten's own name of an operator",
    "_current_build_context": "Hypothesis: tests/execution/test_hypothesis_notes.py checks it",
    "_actions": "argparse",
    "_get_positional_actions": "argparse",
    "_indent_increment": "argparse",
    "_option_string_actions": "argparse",
    "_positionals": "argparse",
}
"""Private attributes of others that any room may read."""
MODULE = re.compile(r"(torch|jax|jaxlib|jax_triton)(\.\w+)*")


def test_private_modules_are_named_in_their_rooms_alone() -> None:
    wrong = [
        f"{_place(path)}:{line} names {name}"
        for path in _trees()
        for line, name in _private_modules(path)
        if not _place(path).startswith(f"harness/{_seam(name)}/")
    ]
    assert wrong == []


def test_private_attributes_of_others_are_read_in_the_rooms_of_engines_alone() -> None:
    own = {name for tree in _trees().values() for name in _defined(tree)}
    seams = tuple(f"harness/engines/{room}/" for room in ("torch", "triton", "jax"))
    wrong = [
        f"{_place(path)}:{node.lineno} reads {node.attr}"
        for path, tree in _trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in {*own, *OTHER_ATTRIBUTES}
        if not _place(path).startswith(seams)
    ]
    assert wrong == []


def test_the_private_names_were_run_with_this_release_of_torch() -> None:
    release = ".".join(torch.__version__.split(".")[:2])
    assert release in torch_seam.RELEASES, (
        f"harness/engines/torch was run with torch {', '.join(torch_seam.RELEASES)}, not {release}: "
        "run the tests, compare the private names with that release, and add it to RELEASES"
    )


def test_a_name_that_torch_has_moved_is_refused_with_the_releases_that_were_run() -> None:
    error = torch_seam.moved("torch._C.DisableTorchFunction")
    assert isinstance(error, MissingPart)
    assert str(error) == (
        f"torch {torch.__version__} moved torch._C.DisableTorchFunction, and the harness was run with torch 2.11 and "
        "2.13: pip install 'torch==2.13.*'"
    )


@cache
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(HARNESS.rglob("*.py"))}


def _place(path: Path) -> str:
    return path.relative_to(HARNESS.parent).as_posix()


def _seam(module: str) -> str:
    return SEAMS[max((name for name in SEAMS if f"{module}.".startswith(f"{name}.")), key=len)]


def _private_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each private module, or private name of a module, that is imported or quoted."""
    for node in ast.walk(_trees()[path]):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names):
                modules = [f"{module}.{alias.name}" for alias in names]
            case ast.Constant(value=str(name)):
                modules = [name]
            case ast.Attribute():
                modules = [ast.unparse(node)]
            case _:
                continue
        yield from ((node.lineno, name) for name in modules if _is_private_module(name))


def _is_private_module(text: str) -> bool:
    return MODULE.fullmatch(text) is not None and any(map(_is_private, text.split(".")))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def _defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a file defines, at any depth."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case _:
                pass
