"""The threads of a watched program: each sees the emulated GPU.  Which line led to a launch is known."""

import os
import sysconfig
import threading
import traceback
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from harness.engines.torch.captured_graphs import current_capture
from harness.engines.torch.inductor.inductor_emulation import is_compiled
from harness.engines.torch.torch_seam import RUN, leave_modes
from harness.engines.triton.triton_seam import has_allocator
from harness.execution.call_contexts import CallContexts
from harness.execution.case_execution import NOT_THE_LIBRARY
from harness.execution.exception_text import text_of
from harness.model.ending import Raised
from harness.model.run import Source
from harness.patches import PATCHES
from harness.watched.launch_recorder import current_test


class CallingLines:
    """Finds the line of the caller's own code that led to a launch."""

    def __init__(self, libraries: Iterable[str]) -> None:
        """`libraries` are folders whose code is not the caller's own."""
        installed = (str(Path(os.__file__).parent), sysconfig.get_path("scripts"))  # as `bin/pytest`
        self._not_own = (*NOT_THE_LIBRARY, "-packages/", *installed)
        self._libraries = tuple(libraries)
        self.of_backward: Source | None = None
        """The line that called backward, while backward runs on a thread of its own."""

    def find(self, frame: FrameType | None = None) -> Source | None:
        """Return the innermost line outside libraries, installed packages, the standard library and the harness.

        The frame is by default that of the caller.

        The test's own file is the caller's, also where it lies in the folder of a library.  The code of a compiled
        program has no lines: the line that called it is found, if there is one.
        """
        test = f"{os.sep}{current_test().partition('::')[0]}"
        own = [at for at in traceback.walk_stack(frame) if self._is_own(at[0].f_code.co_filename, test)]
        with_lines = (at for at in own if not is_compiled(at[0].f_code))
        innermost = next(with_lines, None) or next(iter(own), None)
        return Source(file=innermost[0].f_code.co_filename, line=innermost[1]) if innermost else self.of_backward

    def _is_own(self, file: str, test: str) -> bool:
        if any(part in file for part in self._not_own):
            return False
        return file.endswith(test) or not any(part in file for part in self._libraries)

    def raised(self, error: Exception) -> Raised:
        """Return the ending of a launch that raised, at the caller's line."""
        kind = type(error).__name__
        return Raised(kind=kind, message=text_of(error), source=self.find(), phase="launch", traceback="")

    @contextmanager
    def during_backward(self) -> Generator[None]:
        """While active, launches of other threads belong to the line that calls now."""
        outer, self.of_backward = self.of_backward, self.find()
        try:
            yield
        finally:
            self.of_backward = outer


class MainThread:
    """The main thread's allocator of scratch memory.  Other threads cannot see its context."""

    _has_allocator = False

    @classmethod
    def sees_allocator(cls) -> bool:
        """Return True if the main thread has an allocator, as far as this thread knows."""
        if threading.current_thread() is threading.main_thread():
            cls._has_allocator = has_allocator()
        return cls._has_allocator


def emulate_on_every_thread(enter_modes: Callable[[], None]) -> None:
    """Enter torch's modes, which belong to a thread, in each thread that the program starts.

    They are left before the thread ends.  Otherwise torch drops them when the system's thread ends, and needs Python's
    lock for that: a process that ends meanwhile is aborted ("terminate called without an active exception").
    """
    original = threading.Thread.start

    def start(self: threading.Thread) -> None:
        run = self.run

        def run_emulated() -> None:
            enter_modes()
            try:
                run()
            finally:
                leave_modes()

        self.run = run_emulated
        original(self)

    why = "torch's modes belong to a thread"
    PATCHES.replace(threading.Thread, "start", start, why=why, releases="Python 3.11 to 3.13")


def note_lines_of_backward(lines: CallingLines) -> None:
    """Note which line calls backward: torch runs it on threads of its own for CUDA tensors."""
    _wrap_backward(lambda original: _noting_line(original, lines), "it runs on threads of torch's own")


def _noting_line(original: Callable[..., Any], lines: CallingLines) -> Callable[..., Any]:
    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return original(*args, **kwargs)
        with lines.during_backward():
            return original(*args, **kwargs)

    return call


def run_backward_on_its_own_thread(lines: CallingLines, contexts: CallContexts) -> None:
    """Run backward passes on a thread with an empty context, as torch does with CUDA tensors."""
    wrap = partial(_on_backward_thread, lines=lines, contexts=contexts)
    _wrap_backward(wrap, "it runs on a thread of its own, as with CUDA tensors")


def _wrap_backward(wrap: Callable[[Callable[..., Any]], Callable[..., Any]], why: str) -> None:
    for name in ("backward", "grad"):
        PATCHES.replace(torch.autograd, name, wrap(getattr(torch.autograd, name)), why=why, releases=RUN)


def _on_backward_thread(
    original: Callable[..., Any], lines: CallingLines, contexts: CallContexts
) -> Callable[..., Any]:
    owner = threading.local()

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        is_here = getattr(owner, "is_backward", False) or current_capture() is not None  # which records this thread
        if is_here or torch.compiler.is_compiling():
            return original(*args, **kwargs)
        grad_enabled = torch.is_grad_enabled()

        def work() -> Any:
            owner.is_backward = True
            try:
                with torch.set_grad_enabled(grad_enabled):
                    return original(*args, **kwargs)
            finally:
                owner.is_backward = False

        with lines.during_backward():
            return contexts.in_backward_thread(work)

    return call
