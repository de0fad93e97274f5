"""Lots of builds: compiled in several processes, each build by one of them.  No compiler runs here."""

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.compiling.build_lots import BuildLots

KERNELS = ("first", "second", "third")


@dataclass
class Build:
    """A build whose compiler writes its process id into a file."""

    kernel: str
    folder: Path

    @property
    def digest(self) -> str:
        return self.kernel

    @property
    def file(self) -> Path:
        return self.folder / self.kernel

    def is_kept(self) -> bool:
        return self.file.is_file()

    def compile_it(self) -> "Build":
        if not self.is_kept():
            self.file.write_text(str(os.getpid()))
        return self

    @property
    def run(self) -> None:
        """What loads a kernel."""


class FailingBuild(Build):
    def compile_it(self) -> Build:
        raise ValueError(self.kernel)


def compilers_of(folder: Path, may_fork: Callable[[], bool]) -> list[int]:
    """Compile the kernels, and return the processes that did."""
    builds = [Build(kernel, folder) for kernel in KERNELS]
    BuildLots(folder / "locks", may_fork).compile_all(builds)
    return [int(build.file.read_text()) for build in builds]


def test_each_build_has_a_process_of_its_own_while_cores_are_idle(tmp_path: Path) -> None:
    *others, last = compilers_of(tmp_path, lambda: True)
    assert last == os.getpid()
    assert len({*others, last}) == len(KERNELS)


def test_without_idle_cores_this_process_compiles_alone(tmp_path: Path) -> None:
    assert set(compilers_of(tmp_path, lambda: False)) == {os.getpid()}


def elsewhere(folder: Path, compiled: str) -> Callable[[], bool]:
    """Have another process compile the first build, which ends when the other builds begin."""
    (folder / "locks").mkdir()
    lock = os.open(folder / "locks" / KERNELS[0], os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def end() -> bool:
        if compiled:
            (folder / KERNELS[0]).write_text(compiled)
        os.close(lock)
        return False

    return end


def test_a_build_that_another_process_compiles_is_waited_for(tmp_path: Path) -> None:
    assert compilers_of(tmp_path, elsewhere(tmp_path, "0")) == [0, os.getpid(), os.getpid()]


def test_a_build_whose_compiler_died_is_compiled_here(tmp_path: Path) -> None:
    assert compilers_of(tmp_path, elsewhere(tmp_path, "")) == [os.getpid()] * len(KERNELS)


def test_builds_after_one_that_fails_are_left_to_their_calls(tmp_path: Path) -> None:
    builds = [Build("first", tmp_path), FailingBuild("second", tmp_path), Build("third", tmp_path)]
    BuildLots(tmp_path / "locks", lambda: False).compile_all(builds)
    assert [build.is_kept() for build in builds] == [True, False, False]


def test_a_failure_in_a_child_stops_no_other_build(tmp_path: Path) -> None:
    builds = [FailingBuild("first", tmp_path), Build("second", tmp_path)]
    BuildLots(tmp_path / "locks", lambda: True).compile_all(builds)
    assert builds[1].is_kept()
