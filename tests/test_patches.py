"""Patches are listed with their reasons, and undone."""

import ast
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from harness import patches as registry
from harness.patches import Patches

HARNESS = Path(registry.__file__).parent
PROJECTS = ("torch", "triton", "jax", "jaxlib", "jax_triton")
PUT_BACK = {"knobs"}
"""Settings of Triton, which have contexts of their own."""


class Base:
    def inherited(self) -> str:
        return "base"


class Owner(Base):
    def own(self) -> str:
        return "own"

    @staticmethod
    def static() -> str:
        return "static"


class User(Owner): ...


def test_an_attribute_is_put_back_as_it_was() -> None:
    before, patches = dict(vars(Owner)), Patches()
    for name in ("own", "static", "inherited", "new"):
        patches.replace(Owner, name, lambda self: "patched", why="a test", releases="1.0")  # noqa: ARG005
    assert (Owner().own(), Owner().inherited()) == ("patched", "patched")
    patches.undo()
    assert dict(vars(Owner)) == before
    assert (Owner().inherited(), Owner.static(), list(patches)) == ("base", "static", [])


def test_replacements_of_one_attribute_are_undone_in_turn() -> None:
    patches, module = Patches(), ModuleType("other_project")
    module.__dict__["answer"] = 1
    patches.replace_each(module, {"answer": 2, "question": 3}, why="a test", releases="1.0")
    patches.replace(module, "answer", 4, why="another", releases="1.0")
    assert [str(patch) for patch in patches] == [
        "other_project.answer (1.0): a test",
        "other_project.question (1.0): a test",
        "other_project.answer (1.0): another",
    ]
    patches.undo()
    assert module.__dict__["answer"] == 1
    assert not hasattr(module, "question")


def test_patches_are_suspended_and_made_again() -> None:
    patches, module = Patches(), ModuleType("other_project")
    module.__dict__["answer"] = 1
    patches.replace(module, "answer", 2, why="a test", releases="1.0")
    patches.replace(module, "answer", 3, why="another", releases="1.0")
    patches.suspend()
    patches.replace(module, "question", 4, why="asked for meanwhile", releases="1.0")
    assert (module.__dict__["answer"], hasattr(module, "question"), list(patches)) == (1, False, [])
    patches.resume()
    assert (module.__dict__["answer"], module.__dict__["question"]) == (3, 4)
    patches.undo()
    assert (module.__dict__["answer"], hasattr(module, "question")) == (1, False)


def test_a_replacement_that_somebody_wraps_stays_beneath_theirs() -> None:
    patches, owner = Patches(), User()
    patches.replace(owner, "own", lambda: "patched", why="a test", releases="1.0")
    assert [str(patch) for patch in patches] == [f"{User.__module__}.User.own (1.0): a test"]
    patched = owner.own
    vars(owner)["own"] = lambda: f"wrapped {patched()}"
    patches.undo()
    assert owner.own() == "wrapped patched"


def test_other_projects_are_changed_through_the_registry_alone() -> None:
    wrong = [
        f"{path.relative_to(HARNESS.parent)}:{line}"
        for path in sorted(HARNESS.rglob("*.py"))
        for line in _assignments(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert wrong == []


def _assignments(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that assign an attribute of a name that other projects define."""
    foreign = {name for node in ast.walk(tree) for name in _imported(node)}
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            for part in target.elts if isinstance(target, ast.Tuple) else (target,):
                if isinstance(part, ast.Attribute) and ast.unparse(part).partition(".")[0] in foreign - PUT_BACK:
                    yield part.lineno


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement imports from other projects, or takes from what it imports by name."""
    match node:
        case ast.Import(names=names):
            yield from (alias.asname or _project(alias.name) for alias in names if _project(alias.name) in PROJECTS)
        case ast.ImportFrom(module=str(module), names=names) if _project(module) in PROJECTS:
            yield from (alias.asname or alias.name for alias in names)
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ) if any(text in ast.unparse(value) for text in (f"import_module('{project}" for project in PROJECTS)):
            yield name
        case _:
            pass


def _project(module: str) -> str:
    return module.partition(".")[0]
