"""The background compiler compiles real TTIR in a process that may die."""

import json
import os
import re
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path

import psutil
import pytest

from harness.compiling.background_compiler import CACHE, BackgroundCompiler
from harness.model.device import Arch
from harness.model.kernel_resources import Resources
from harness.model.run import Launch
from tests.engines.triton.ttir_texts import CRASHES_LLVM, REFUSED_BY_PTXAS, STORE

SETTLE_S = 60.0
NAME = attrgetter("name")


def leave(folder: Path, build: str, ttir: str = STORE, shape: str = "a shape", arch: Arch = 90) -> Launch:
    """A build as a worker leaves it, and the launch that asks for it."""
    folder.mkdir(exist_ok=True)
    content = {"arch": arch, "options": {"num_warps": 4}, "shape": shape, "ttir": ttir}
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
    return [child for child in psutil.Process().children() if is_compiler(child)]


def is_compiler(process: psutil.Process) -> bool:
    try:
        return "harness.compiling.compiler_process" in process.cmdline()
    except psutil.NoSuchProcess:  # or a zombie
        return False


def compiled(builds: Path, launch: Launch) -> Resources:
    """What is known of the launch when the compiler has settled."""
    with BackgroundCompiler(builds, settle_s=SETTLE_S) as compiler:
        compiler.of(launch)
        compiler.settle()
        resources = compiler.of(launch)
    assert resources is not None
    return resources


def compiled_under(end: signal.Signals, builds: Path, launch: Launch) -> Resources:
    """The same, where each process ends by the signal before it has compiled anything: it still loads Triton."""
    with BackgroundCompiler(builds) as compiler:
        while (resources := compiler.of(launch)) is None:
            for process in compilers():
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(end)
    return resources


def names(builds: Path) -> list[str]:
    return sorted(path.name for path in builds.iterdir())


@pytest.fixture
def builds(tmp_path: Path) -> Path:
    return tmp_path / "builds"


def test_a_build_that_is_waited_for_comes_before_the_others(builds: Path) -> None:
    first, *waiting, last = (leave(builds, f"build{number}") for number in range(8))
    with BackgroundCompiler(builds, settle_s=SETTLE_S) as compiler:
        for launch in (first, *waiting, last):
            assert compiler.of(launch) is None
        compiler.wait_for([last])
        assert compiler.of(last) is not None
        assert any(compiler.of(launch) is None for launch in waiting)


def test_a_requested_build_is_known_when_the_compiler_settles(builds: Path) -> None:
    launch = leave(builds, "one")
    with BackgroundCompiler(builds, settle_s=SETTLE_S) as compiler:
        assert compiler.of(launch) is None
        compiler.settle()
        resources = compiler.of(launch)
    assert resources is not None
    assert (resources.threads, resources.shared_bytes, resources.failure) == (128, 0, "")
    assert resources.registers_per_thread > 0


def test_the_next_search_begins_with_the_kept_resources(builds: Path) -> None:
    launch = leave(builds, "one")
    with BackgroundCompiler(builds, settle_s=SETTLE_S) as compiler:
        compiler.of(launch)
        compiler.settle()
        known = compiler.of(launch)
    with BackgroundCompiler(builds) as compiler:
        assert compiler.of(launch) == known
        assert compilers() == []
    assert names(builds) == ["one.resources"]


@pytest.mark.parametrize("ttir", ["module { this is no TTIR }", REFUSED_BY_PTXAS], ids=["by MLIR", "by ptxas"])
def test_a_kernel_that_the_compiler_refuses_is_kept_as_a_failure(builds: Path, ttir: str) -> None:
    launch = leave(builds, "bad", ttir=ttir)
    resources = compiled(builds, launch)
    assert resources.failure
    assert names(builds) == ["bad.resources"]
    with BackgroundCompiler(builds) as compiler:
        assert compiler.of(launch) == resources


def test_a_kernel_that_the_compiler_refuses_does_not_delay_others(builds: Path) -> None:
    bad, good = leave(builds, "bad", ttir=REFUSED_BY_PTXAS), leave(builds, "good")
    with BackgroundCompiler(builds, settle_s=SETTLE_S) as compiler:
        began = time.monotonic()
        compiler.of(bad)
        compiler.of(good)
        compiler.settle()
        took_s = time.monotonic() - began
        known = compiler.of(good)
    assert known is not None
    assert not known.failure
    assert took_s < SETTLE_S


def test_a_kernel_that_crashes_the_compiler_is_tried_again_next_time(builds: Path) -> None:
    resources = compiled(builds, leave(builds, "bad", ttir=CRASHES_LLVM))
    assert resources == Resources.failed(resources.failure)
    assert resources.failure.startswith("the compiler's process died of SIGABRT (UNREACHABLE executed at ")
    assert resources.failure.endswith("), 2 times of 2")
    assert names(builds) == []


def test_assembly_of_nvidia_is_refused_for_a_gpu_of_amd(builds: Path) -> None:
    resources = compiled(builds, leave(builds, "bad", ttir=REFUSED_BY_PTXAS, arch="gfx942"))
    assert resources == Resources.failed(resources.failure)
    # Up to Triton 3.8 LLVM ends the process; later it goes on without the instruction.
    reason = r"error: could( not|n't) allocate output register for constraint 'f'"
    assert re.fullmatch(
        rf"{reason}|the compiler's process ended with status 1 \({reason}\), 2 times of 2", resources.failure
    )


@pytest.mark.parametrize("end", [signal.SIGSEGV, signal.SIGBUS], ids=NAME)
def test_a_signal_raised_by_the_compiler_itself_is_the_kernels_failure(builds: Path, end: signal.Signals) -> None:
    resources = compiled_under(end, builds, leave(builds, "one"))
    assert resources == Resources.failed(f"the compiler's process died of {end.name}, 2 times of 2")
    assert names(builds) == []


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=NAME)
def test_a_compiler_killed_from_outside_leaves_the_kernel_unknown(builds: Path, end: signal.Signals) -> None:
    resources = compiled_under(end, builds, leave(builds, "one"))
    assert resources == Resources.not_known(f"the compiler's process died of {end.name}")
    assert names(builds) == []


def test_an_unreadable_answer_leaves_the_kernel_unknown(
    builds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text('print("good morning")\n', encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    resources = compiled(builds, leave(builds, "one"))
    assert resources == Resources.not_known("the compiler's process answers 'good morning'")
    assert names(builds) == []
    assert compilers() == []


def test_a_compiler_that_cannot_load_leaves_the_kernel_unknown(
    builds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "triton.py").write_text("import no_such_module\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    resources = compiled(builds, leave(builds, "one"))
    reason = "ModuleNotFoundError: No module named 'no_such_module'"
    assert resources == Resources.not_known(f"the compiler's process ended with status 1 ({reason})")


def test_a_compiler_that_cannot_be_started_leaves_the_kernel_unknown(
    builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    resources = compiled(builds, leave(builds, "one"))
    assert resources.failure == ""
    assert resources.unknown.startswith("the compiler's process cannot be started: ")


def test_a_cache_that_cannot_be_made_leaves_the_kernel_unknown(builds: Path, tmp_path: Path) -> None:
    (tmp_path / CACHE).write_text("in the way", encoding="utf-8")
    resources = compiled(builds, leave(builds, "one"))
    assert resources.failure == ""
    assert "Error: " in resources.unknown
    assert names(builds) == []


def test_nothing_is_written_outside_the_scratch_folder(
    builds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/proc/nowhere")
    monkeypatch.chdir(tmp_path)
    resources = compiled(Path(builds.name), leave(builds, "one"))
    assert (resources.failure, resources.unknown) == ("", "")
    assert names(tmp_path) == ["builds", CACHE]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0\0\0\0",
        b"{}",
        b"[1, 2",
        json.dumps(asdict(Resources.failed("the compiler's process ended with status -9"))).encode(),
    ],
    ids=["of a power cut", "zeros", "foreign", "cut short", "of an earlier release"],
)
def test_an_unreadable_resources_file_is_replaced(builds: Path, text: bytes) -> None:
    launch = leave(builds, "one")
    (builds / "one.resources").write_bytes(text)
    resources = compiled(builds, launch)
    assert resources.threads == 128
    with BackgroundCompiler(builds) as compiler:
        assert compiler.of(launch) == resources


def test_an_unreadable_resources_file_is_removed_at_the_start(builds: Path) -> None:
    leave(builds, "one")
    (builds / "other.resources").touch()
    with BackgroundCompiler(builds):
        assert names(builds) == ["one.json"]


def test_an_unreadable_build_is_removed_and_stays_unknown(builds: Path) -> None:
    launch = leave(builds, "one")
    (builds / "one.json").write_text("", encoding="utf-8")
    with BackgroundCompiler(builds) as compiler:
        assert compiler.of(launch) is None
        assert names(builds) == []
        leave(builds, "one")
        assert compiler.of(launch) is None
        compiler.settle()
        assert compiler.of(launch) is not None


def test_an_error_in_the_compilers_thread_is_raised_to_its_user(builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = leave(builds, "one")
    monkeypatch.setattr(sys, "executable", None)  # as where Python is embedded
    with BackgroundCompiler(builds, settle_s=SETTLE_S) as compiler:
        compiler.of(launch)
        with pytest.raises(TypeError):
            compiler.settle()
        with pytest.raises(TypeError):
            compiler.of(launch)


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


ENDLESS_PTXAS = """#!/bin/sh
case "$*" in *--version*) echo "Cuda compilation tools, release 12.8, V12.8.93"; exit;; esac
echo $$ "$@" > {note}.new; mv {note}.new {note}
exec sleep 600
"""


def test_closing_ends_the_assembler_and_removes_its_files(
    builds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note, ptxas = tmp_path / "started", tmp_path / "ptxas"
    ptxas.write_text(ENDLESS_PTXAS.format(note=note), encoding="utf-8")
    ptxas.chmod(0o755)
    for variable in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):  # which one counts depends on the release
        monkeypatch.setenv(variable, str(ptxas))
    with BackgroundCompiler(builds) as compiler:
        compiler.of(leave(builds, "one"))
        deadline = time.monotonic() + SETTLE_S
        while not note.exists() and time.monotonic() < deadline:
            os.sched_yield()
        assembler, *arguments = note.read_text(encoding="utf-8").split()
        sources = [Path(argument) for argument in arguments if argument.endswith(".ptx")]
        assert [source.exists() for source in sources] == [True]
    assert not psutil.pid_exists(int(assembler)) or psutil.Process(int(assembler)).status() == psutil.STATUS_ZOMBIE
    assert [source.exists() for source in sources] == [False]


def test_a_missing_build_stays_unknown(builds: Path) -> None:
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
    assert [name for name in names(builds) if name.endswith(".json")] == []


def test_a_search_that_ends_leaves_the_builds_of_another_one(builds: Path) -> None:
    launches = [leave(builds, f"build{number}") for number in range(8)]
    with BackgroundCompiler(builds, settle_s=SETTLE_S) as later:
        with BackgroundCompiler(builds) as ending:
            for launch in launches:
                ending.of(launch)
        for launch in launches:
            later.of(launch)
        later.settle()
        assert None not in [later.of(launch) for launch in launches]
    assert [name for name in names(builds) if name.endswith(".json")] == []


def test_a_compiler_that_is_killed_leaves_no_temporary_file(
    builds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    launches = [leave(builds, f"build{number}") for number in range(20)]
    with BackgroundCompiler(builds) as compiler:
        for launch in launches:
            compiler.of(launch)
        deadline = time.monotonic() + SETTLE_S
        while not any(tmp_path.rglob("kernel-harness-*")) and time.monotonic() < deadline:
            pass  # its first compilation has not begun
    assert list(tmp_path.rglob("kernel-harness-*")) == []
    assert names(temporary) == []
