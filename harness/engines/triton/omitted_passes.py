"""Compiles one kernel again and again, each time without one pass of Triton's pipeline after TTIR.  A seam.

`python -m harness.engines.triton.omitted_passes` reads one build from standard input, as JSON, and prints a line of
JSON with all passes, and one for each.  Each compilation is a fork, since LLVM may abort.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from harness.engines.triton.stage_process import compiler_environment, reserve_output
from harness.engines.triton.triton_releases import TESTED
from harness.model.device import Arch
from harness.patches import PATCHES

LLVM = "llvm.optimize_module"
"""All passes of LLVM, which count as one."""
PASS_LIMIT_S = 30
"""The longest compilation without one pass."""
FIRST_LETTERS = "add_"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantBuild:
    """What the compiler makes of a kernel without one pass."""

    omitted: str
    """As Triton's backend calls it: `ttgpuir.add_pipeline`."""
    content: str
    """As `compile_to_executable` returns it; empty if the kernel does not compile."""
    was_tried: bool = True
    """False if there was no time for it."""


def builds_without_passes(ttir: str, arch: Arch, options: Mapping[str, Any], until: float) -> Iterator[VariantBuild]:
    """Yield a build without each pass, in the order of the pipeline, until a moment of the monotonic clock.

    A pass that runs several times is left out each time.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.engines.triton.omitted_passes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=compiler_environment(),
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    ending = threading.Timer(max(0.0, until - time.monotonic()), process.kill)
    ending.daemon = True
    ending.start()
    try:
        with process.stdin, process.stdout:
            process.stdin.write(json.dumps({"ttir": ttir, "arch": arch, "options": dict(options)}))
            process.stdin.close()
            names: list[str] = json.loads(process.stdout.readline() or "[]")
            for line in process.stdout:
                variant = VariantBuild(**json.loads(line))
                names.remove(variant.omitted)
                yield variant
            for name in names:
                yield VariantBuild(omitted=name, content="", was_tried=False)
    finally:
        ending.cancel()
        process.kill()
        process.wait()


def main() -> None:
    """Compile the build on standard input without each pass."""
    from triton import knobs  # noqa: PLC0415 - the caller needs no compiler

    from harness.engines.triton.later_stages import compile_to_executable  # noqa: PLC0415 - likewise

    answers = reserve_output()
    build = json.loads(sys.stdin.read())

    def compile_kernel() -> str:
        return compile_to_executable(build["ttir"], build["arch"], build["options"])

    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        names = _forked(lambda: json.dumps(_recorded_passes(compile_kernel))) or "[]"
        answers.write(f"{names}\n")
        answers.flush()
        for name in json.loads(names):
            content = _forked(lambda name=name: _compiled_without(name, compile_kernel))
            answers.write(f"{json.dumps({'omitted': name, 'content': content})}\n")
            answers.flush()


def _passes() -> dict[str, tuple[ModuleType, str]]:
    """Return module and attribute of each pass by its name."""
    from triton.backends.nvidia import compiler  # noqa: PLC0415 - as in `main`

    found = {LLVM: (compiler.llvm, LLVM.partition(".")[2])}
    for every in (compiler.passes, compiler.nvidia.passes):
        for kind in (name for name in dir(every) if isinstance(getattr(every, name), ModuleType)):
            module = getattr(every, kind)
            # Both have a `ttgpuir`: no name of a pass is in both.
            found |= {f"{kind}.{name}": (module, name) for name in dir(module) if name.startswith(FIRST_LETTERS)}
    return found


def _recorded_passes(compile_kernel: Callable[[], str]) -> list[str]:
    """Return the passes that a compilation runs, each once, in their order."""
    seen: dict[str, None] = {}

    def recording(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def add(*arguments: Any, **named: Any) -> Any:
            seen[name] = None
            return original(*arguments, **named)

        return add

    for name, (module, attribute) in _passes().items():
        _replace(module, attribute, recording(name, getattr(module, attribute)), "list the passes of a compilation")
    compile_kernel()
    return list(seen)


def _compiled_without(name: str, compile_kernel: Callable[[], str]) -> str:
    module, attribute = _passes()[name]
    _replace(module, attribute, lambda *_, **__: None, "leave out one pass")
    return compile_kernel()


def _replace(module: ModuleType, attribute: str, replacement: object, why: str) -> None:
    PATCHES.replace(module, attribute, replacement, why=why, releases=TESTED)


def _forked(work: Callable[[], str]) -> str:
    """Return what a fork returns; empty if it fails, crashes or takes too long."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(PASS_LIMIT_S)
            os.close(read_end)
            with os.fdopen(write_end, "w", encoding="utf-8") as file:
                file.write(work())
            status = 0
        finally:  # without a pass, a later one may raise anything
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8") as file:
        answer = file.read()
    _, status = os.waitpid(child, 0)
    return answer if status == 0 else ""


if __name__ == "__main__":
    main()
