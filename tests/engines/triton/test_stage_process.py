"""The compiler of one stage, in a process of its own."""

import os
import signal
from pathlib import Path

import pytest

from harness.engines.triton.stage_process import compiled_text
from harness.workers.supervision import linux

KERNEL = "module {\n  tt.func public @nothing() {\n    tt.return\n  }\n}\n"

pytestmark = pytest.mark.slow


def compiled(warps: int) -> str:
    return compiled_text(KERNEL, "ttgir", 120, {"num_warps": warps})


def compilers() -> list[int]:
    """Return the processes that compile for this one."""
    return [child for child in linux.children() if b"stage_process" in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_a_kernel_is_compiled_to_a_stage_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_WATCH", "/nonexistent")  # a watched process would compile to TTIR only
    assert '"ttg.num-warps" = 2' in compiled(2)


def test_a_compiler_that_fails_raises_and_nothing_more() -> None:
    with pytest.raises(RuntimeError):
        compiled_text("module {", "ttgir", 120, {"num_warps": 2})
    assert '"ttg.num-warps" = 2' in compiled(2)


def test_one_process_compiles_one_build_after_another() -> None:
    compiled(2)
    processes = compilers()
    assert '"ttg.num-warps" = 4' in compiled(4)
    assert compilers() == processes


def test_a_compiler_that_was_killed_is_started_again() -> None:
    compiled(2)
    (compiler,) = compilers()
    os.kill(compiler, signal.SIGKILL)
    os.waitid(os.P_PID, compiler, os.WEXITED | os.WNOWAIT)
    assert '"ttg.num-warps" = 4' in compiled(4)


def test_a_compiler_sees_the_environment_of_its_build(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(2)
    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "none")
    with pytest.raises(RuntimeError):
        compiled(4)


def test_a_forked_process_has_a_compiler_of_its_own() -> None:
    compiled(2)
    child = os.fork()
    if child == 0:
        text = ""
        try:
            text = compiled(4)
        finally:
            os._exit('"ttg.num-warps" = 4' not in text)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert '"ttg.num-warps" = 8' in compiled(8)
