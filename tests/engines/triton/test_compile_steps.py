"""Whatever order the steps around compiling are added in, they run in one order, and all patches can be undone."""

from collections.abc import Callable
from typing import Any

import pytest
from triton.runtime.jit import JITFunction

from harness.engines.triton import compile_steps
from harness.engines.triton.compile_steps import CompileStep, compile_through
from harness.patches import Patches


def test_steps_run_in_their_order_and_are_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    ran, patches, kernels = list[str](), Patches(), list[str]()

    def compile_kernel(self: Any, kernel: str) -> str:
        del self
        ran.append("Triton")
        kernels.append(kernel)
        return f"compiled {kernel}"

    def around(name: str) -> Callable[..., Any]:
        def step(kernel: Any, inner: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            del kernel, args, kwargs
            ran.append(name)
            return inner()

        return step

    monkeypatch.setattr(JITFunction, "_do_compile", compile_kernel)
    monkeypatch.setattr(compile_steps, "PATCHES", patches)
    for step in (CompileStep.EXPLAIN, CompileStep.NOTE, CompileStep.ASSEMBLE):
        compile_through(step, around(step.name), why="a test")
    compile_through(CompileStep.NOTE, around("NOTE again"), why="a test")
    method: Any = JITFunction._do_compile
    assert method(None, "add_one") == "compiled add_one"
    assert (ran, kernels) == (["ASSEMBLE", "EXPLAIN", "NOTE again", "Triton"], ["add_one"])
    patches.undo()
    assert JITFunction._do_compile is compile_kernel
