"""After each test of the workers, no process and no open file may be left."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from harness.workers.fork_servers.shared_zygotes import SharedZygotes
from tests.workers.setting import MARK, Fifo, survivors

OWN_ZYGOTES = SharedZygotes.of


@pytest.fixture(autouse=True)
def own_zygotes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each pool have its own zygotes again: these tests are about processes."""
    monkeypatch.setattr(SharedZygotes, "of", OWN_ZYGOTES)


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mark in the environment of every process that the test starts."""
    mark = uuid4().hex
    monkeypatch.setenv(MARK, mark)
    before = open_files()
    yield mark
    assert survivors(mark) == []
    assert open_files() <= before


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A campaign's folder, empty when all its pools are closed."""
    folder = tmp_path / "scratch"
    yield folder
    assert list(folder.rglob("*")) == []


@pytest.fixture
def fifo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fifo]:
    """A pipe that cases find in their environment."""
    path = tmp_path / "fifo"
    monkeypatch.setenv("MISCHIEF_FIFO", str(path))
    fifo = Fifo(path)
    yield fifo
    fifo.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that cases find in their environment."""
    made = tmp_path / "mischief"
    made.mkdir()
    monkeypatch.setenv("MISCHIEF_FOLDER", str(made))
    return made
