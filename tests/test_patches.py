"""Patches are listed with their reasons, and undone."""

from types import ModuleType

from harness.patches import Patches


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
