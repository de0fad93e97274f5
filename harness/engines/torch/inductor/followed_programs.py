"""Programs that any code hands to `torch.compile`: Dynamo and Inductor compile them for the emulated device.

A program that cannot be compiled here runs uncompiled, and the reason is reported.  So is a graph of a program that its
own backend does not hand to Inductor.
"""

import os
import threading
from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from harness.engines.torch.import_hooks import change_when_imported
from harness.engines.torch.inductor.device_guard import install_device_guard
from harness.engines.torch.inductor.inductor_emulation import EMULATION, RUN, check_release
from harness.errors import CannotExecute
from harness.patches import PATCHES

DYNAMO = "torch._dynamo"
"""The module through which `torch.compile` reaches TorchDynamo."""
INDUCTOR = "torch._inductor.compile_fx"
"""The module through which each graph reaches Inductor."""
LOADS_KERNELS = "from torch._inductor.async_compile import AsyncCompile"
"""The statement by which a generated file gets what loads its kernels."""


class FollowedPrograms:
    """The programs of this process."""

    def __init__(self, answering: tuple[type, ...], on_uncompiled: Callable[[str], None]) -> None:
        """`answering` are the classes of torch's modes that answer for the GPU.

        `on_uncompiled` is called with the reason for each program, or graph of one, that runs uncompiled.
        """
        self._answering = answering
        self._on_uncompiled = on_uncompiled
        self._of_thread = threading.local()

    def follow(self) -> None:
        """Compile programs for the emulated device from now on.  The first one loads what that needs."""
        change_when_imported(DYNAMO, self._replace_optimize)
        change_when_imported(INDUCTOR, self._replace_compile_fx)

    def prepare_script(self, script: ModuleType) -> None:
        """Let a file that Inductor has generated launch its kernels, if it is the script that runs.

        It takes the allocator of CUDA memory, and the loader of kernels, when it begins.
        """
        if _is_generated(script) and not self._obstacle:
            from harness.engines.torch.inductor.compiled_calls import emulated  # noqa: PLC0415 - it imports Inductor

            emulated().use_options_everywhere()

    @cached_property
    def _obstacle(self) -> str:
        """Why no program can be compiled; empty if programs can.  TorchDynamo sees the GPU then."""
        try:
            check_release(torch.__version__)
            install_device_guard(EMULATION.folder)
        except CannotExecute as error:
            return error.what
        from harness.engines.torch.inductor.dynamo_seam import emulate_in_traces  # noqa: PLC0415 - of known releases alone

        emulate_in_traces(self._answering, self._handed_over)
        return ""

    def _replace_optimize(self, dynamo: Any) -> None:
        original = dynamo.optimize

        @wraps(original)
        def optimize(*args: Any, **options: Any) -> Any:
            if not options.get("disable"):
                is_off = dynamo.config.disable or os.environ.get("TORCHDYNAMO_DISABLE") == "1"
                why = "torch.compile is switched off" if is_off else self._obstacle
                if why:
                    self._on_uncompiled(why)
                    options["disable"] = True
            return original(*args, **options)

        for owner in (dynamo, dynamo.eval_frame):  # `torch.compile` calls the first, and `explain` of Dynamo the second
            PATCHES.replace(
                owner, "optimize", optimize, why="a program that cannot be compiled is reported", releases=RUN
            )

    def _handed_over(self, backend: str, hand_over: Callable[[], Any]) -> Any:
        """Hand a graph to its backend, and report it unless that hands it to Inductor."""
        self._of_thread.reached_inductor = False
        compiled = hand_over()
        if not self._of_thread.reached_inductor:
            self._on_uncompiled(f"its backend is {backend}")
        return compiled

    def _replace_compile_fx(self, inductor: Any) -> None:
        original = inductor.compile_fx

        @wraps(original)
        def compile_fx(graph: Any, inputs: Sequence[Any], inner_compile: Any = None, **options: Any) -> Any:
            if inner_compile is not None:  # a call of the seam, or a backend that does the last step itself
                return original(graph, inputs, inner_compile, **options)
            self._of_thread.reached_inductor = True
            return self._compiled(graph, inputs, options)

        why = "Inductor compiles a program for the emulated GPU"
        PATCHES.replace(inductor, "compile_fx", compile_fx, why=why, releases=RUN)

    def _compiled(self, graph: Any, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
        from harness.engines.torch.inductor.compiled_calls import emulated  # noqa: PLC0415 - it imports Inductor

        try:
            inductor = emulated()
            inductor.on_uncompiled = self._on_uncompiled
            return inductor.compile(graph, inputs, options)
        except CannotExecute as error:
            self._on_uncompiled(error.what)
            return graph


def _is_generated(script: ModuleType) -> bool:
    """Return True for a script that Inductor wrote: it loads its own kernels."""
    file = getattr(script, "__file__", None)
    try:
        return file is not None and LOADS_KERNELS in Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
