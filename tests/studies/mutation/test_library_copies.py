"""Copies of a library with one file replaced."""

from pathlib import Path

import pytest

from studies.mutation.library_copies import copy_with_file


@pytest.fixture
def library(tmp_path: Path) -> Path:
    root = tmp_path / "library"
    for file in (
        "pkg/__init__.py",
        "pkg/ops/__init__.py",
        "pkg/ops/norm.py",
        "pkg/other/x.py",
        "pkg-1.dist-info/METADATA",
    ):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(file)
    (root / "pkg" / "ops" / "__pycache__").mkdir()
    return root


def test_one_file_differs_and_all_others_are_links(library: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy_with_file(library, "pkg/ops/norm.py", b"mutated", copy)
    texts = {path.relative_to(copy).as_posix(): path.read_text() for path in _files(copy)}
    expected = {path.relative_to(library).as_posix(): path.read_text() for path in _files(library)}
    assert texts == {**expected, "pkg/ops/norm.py": "mutated"}
    assert (library / "pkg/ops/norm.py").read_text() == "pkg/ops/norm.py"


def test_bytecode_of_the_replaced_file_stays_out_of_the_library(library: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy_with_file(library, "pkg/ops/norm.py", b"mutated", copy)
    assert not (copy / "pkg" / "ops" / "__pycache__").exists()
    assert not (copy / "pkg" / "ops").is_symlink()


def _files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        found += _files(path) if path.is_dir() else [path]
    return found
