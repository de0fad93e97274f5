"""The compiler beside the search: real TTIR, really compiled, in a process that may die."""

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from harness.model.run import Launch
from harness.workers.compiler import BackgroundCompiler

TTIR = """
module {
  tt.func public @store(%x: !tt.ptr<f32>) {
    %one = arith.constant 1.000000e+00 : f32
    tt.store %x, %one : !tt.ptr<f32>
    tt.return
  }
}
"""
SETTLE_S = 60.0


def leave(folder: Path, build: str, ttir: str = TTIR, shape: str = "a shape") -> Launch:
    """A build as a worker leaves it, and the launch that asks for it."""
    folder.mkdir(exist_ok=True)
    content = {"arch": 90, "options": {"num_warps": 4}, "shape": shape, "ttir": ttir}
    (folder / f"{build}.json").write_text(json.dumps(content), encoding="utf-8")
    return Launch(
        kernel="store",
        source=None,
        grid=(1, 1, 1),
        config="",
        config_index=0,
        config_count=1,
        num_warps=4,
        constants={},
        tile_sizes=(),
        build=build,
    )


def compilers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "harness.virtual.resources" in child.cmdline()]


@pytest.fixture
def builds(tmp_path: Path) -> Path:
    return tmp_path / "builds"


def test_a_build_that_was_asked_for_is_known_when_the_compiler_settles(builds: Path) -> None:
    launch = leave(builds, "one")
    with BackgroundCompiler(builds, settle_s=SETTLE_S) as compiler:
        assert compiler.of(launch) is None
        compiler.settle()
        resources = compiler.of(launch)
    assert resources is not None
    assert (resources.threads, resources.shared_bytes, resources.failure) == (128, 0, "")
    assert resources.registers_per_thread > 0


def test_the_next_search_begins_with_what_is_known(builds: Path) -> None:
    launch = leave(builds, "one")
    with BackgroundCompiler(builds, settle_s=SETTLE_S) as compiler:
        compiler.of(launch)
        compiler.settle()
        known = compiler.of(launch)
    with BackgroundCompiler(builds) as compiler:
        assert compiler.of(launch) == known
        assert compilers() == []
    assert [path.name for path in builds.iterdir()] == ["one.resources"]


def test_what_the_compiler_refuses_is_its_failure(builds: Path) -> None:
    launch = leave(builds, "bad", ttir="module { this is no TTIR }")
    with BackgroundCompiler(builds, settle_s=SETTLE_S) as compiler:
        compiler.of(launch)
        compiler.settle()
        resources = compiler.of(launch)
    assert resources is not None
    assert resources.failure


def test_a_compiler_that_was_killed_is_started_again(builds: Path) -> None:
    first, second = leave(builds, "first"), leave(builds, "second")
    with BackgroundCompiler(builds, settle_s=SETTLE_S) as compiler:
        compiler.of(first)
        compiler.settle()
        (process,) = compilers()
        os.kill(process.pid, signal.SIGKILL)
        compiler.of(second)
        compiler.settle()
        resources = compiler.of(second)
    assert resources is not None
    assert not resources.failure


def test_a_build_that_nobody_left_stays_unknown(builds: Path) -> None:
    launch = leave(builds, "gone")
    (builds / "gone.json").unlink()
    with BackgroundCompiler(builds, settle_s=SETTLE_S) as compiler:
        assert compiler.of(launch) is None
        compiler.settle()
        assert compiler.of(launch) is None


def test_closing_leaves_no_process_and_no_build_behind(builds: Path) -> None:
    launches = [leave(builds, f"build{number}") for number in range(20)]
    with BackgroundCompiler(builds) as compiler:
        for launch in launches:
            compiler.of(launch)
    assert compilers() == []
    left = [path for path in builds.iterdir() if path.suffix == ".json"]
    assert len(left) <= 1  # the one that was being compiled
