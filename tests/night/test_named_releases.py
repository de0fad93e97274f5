"""Which code a library of a night is, tonight."""

import subprocess
from pathlib import Path

import pytest

from harness.errors import LibraryError
from harness.libraries import resolve
from harness.night.named_releases import NamedLibrary, named_library

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "kernels-of-test"
version = "1.0"

[tool.setuptools]
packages = ["kernels_of_test"]
"""


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "kernels_of_test").mkdir(parents=True)
    (folder / "kernels_of_test" / "__init__.py").write_text("", encoding="utf-8")
    (folder / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_branch_is_its_newest_commit(repository: Path, tmp_path: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    spec = f"kernels-of-test @ git+file://{repository}@main"
    pinned = f"kernels-of-test @ git+file://{repository}@{first}"
    assert named_library(spec, tmp_path) == NamedLibrary(spec=pinned, name=f"kernels-of-test {first[:12]}")
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    assert named_library(spec, tmp_path).name != f"kernels-of-test {first[:12]}"
    assert named_library(pinned, tmp_path).spec == pinned
    assert named_library(spec.removesuffix("@main"), tmp_path) == named_library(spec, tmp_path)


@pytest.mark.nightly
def test_a_commit_is_installed_once(repository: Path, tmp_path: Path) -> None:
    library = named_library(f"kernels-of-test @ git+file://{repository}@main", tmp_path)
    said: list[str] = []
    folders = [resolve([library.spec], cache=tmp_path / "cache", report=said.append) for _ in range(2)]
    assert folders[0] == folders[1]
    assert len(said) == 1
    assert Path(folders[0][0], "kernels_of_test").is_dir()


def test_a_folder_has_the_name_of_its_commit(repository: Path, tmp_path: Path) -> None:
    assert named_library(str(repository), tmp_path).name == f"repository {git(repository, 'rev-parse', 'HEAD')[:12]}"


def test_a_release_with_a_version_stays_as_it_is(tmp_path: Path) -> None:
    assert named_library("fla-core==0.6.0", tmp_path) == NamedLibrary(spec="fla-core==0.6.0", name="fla-core 0.6.0")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("git+file:///nowhere@main", "write the name of the library before the address"),
        ("x @ git+file:///nowhere@main", "file:///nowhere cannot be reached: "),
        ("x @ git+ssh://git@127.0.0.1:9/x", "ssh://git@127.0.0.1:9/x cannot be reached: "),
    ],
)
def test_a_repository_that_cannot_be_reached_is_named(tmp_path: Path, spec: str, message: str) -> None:
    with pytest.raises(LibraryError, match=message):
        named_library(spec, tmp_path)
