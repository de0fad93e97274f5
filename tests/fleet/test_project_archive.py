"""The machines of a cluster get the files of a project, and nothing else of its folder."""

import subprocess
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.fleet import project_archive
from harness.fleet.project_archive import packed, unpacked


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    for name in ("suites/norm.py", "suites/__pycache__/norm.pyc", ".harness/x", "build/large.bin", "pyproject.toml"):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    return project


def test_caches_and_hidden_folders_are_left_out(project: Path, tmp_path: Path) -> None:
    there = unpacked(packed(project), tmp_path / "cache")
    assert files_below(there) == {"suites/norm.py", "build/large.bin", "pyproject.toml"}


def test_git_decides_what_belongs_to_a_repository(project: Path, tmp_path: Path) -> None:
    (project / ".gitignore").write_text("build\n.harness\n__pycache__\n", encoding="utf-8")
    subprocess.run(["/usr/bin/git", "init", "-q", str(project)], check=True)
    there = unpacked(packed(project), tmp_path / "cache")
    assert files_below(there) == {"suites/norm.py", "pyproject.toml", ".gitignore"}


def test_equal_files_are_unpacked_once(project: Path, tmp_path: Path) -> None:
    first = unpacked(packed(project), tmp_path / "cache")
    (project / "suites" / "norm.py").touch()
    assert unpacked(packed(project), tmp_path / "cache") == first
    (project / "suites" / "norm.py").write_text("other", encoding="utf-8")
    assert unpacked(packed(project), tmp_path / "cache") != first


def test_a_folder_with_data_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_archive, "MOST_BYTES", 20)
    with pytest.raises(UsageError, match="keep data and builds out of it"):
        packed(project)
