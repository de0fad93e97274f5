"""The extras that the harness names to users, and those that `pyproject.toml` declares."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from harness import extras
from harness.errors import MissingPart

PROJECT = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text(encoding="utf-8"))


def test_each_extra_stands_in_pyproject_with_the_same_packages() -> None:
    declared = PROJECT["project"]["optional-dependencies"]
    named = {extra: tuple(Requirement(one).name for one in declared[extra]) for extra in extras.EXTRAS}
    assert named == dict(extras.EXTRAS)


def test_a_package_of_an_extra_is_no_plain_dependency() -> None:
    needed = {Requirement(one).name for one in PROJECT["project"]["dependencies"]}
    assert needed & {package for packages in extras.EXTRAS.values() for package in packages} == set()


def test_a_missing_extra_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    extras.require("repro", "harness repro")
    monkeypatch.setattr(extras, "find_spec", lambda name: None)  # noqa: ARG005 - as the original calls it
    with pytest.raises(MissingPart) as raised:
        extras.require("repro", "harness repro")
    assert str(raised.value) == "harness repro needs libcst and ruff: pip install 'kernel-harness[repro]'"
