"""The compiler of one stage, in a process of its own."""

import pytest

from harness.engines.triton.stage_process import compiled_text

KERNEL = "module {\n  tt.func public @nothing() {\n    tt.return\n  }\n}\n"

pytestmark = pytest.mark.slow


def test_a_kernel_is_compiled_to_a_stage_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_WATCH", "/nonexistent")  # a watched process would compile to TTIR only
    assert '"ttg.num-warps" = 2' in compiled_text(KERNEL, "ttgir", 120, {"num_warps": 2})


def test_a_compiler_that_fails_raises_and_nothing_more() -> None:
    with pytest.raises(RuntimeError):
        compiled_text("module {", "ttgir", 120, {"num_warps": 2})
