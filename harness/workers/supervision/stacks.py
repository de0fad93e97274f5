"""Python stacks as `faulthandler` prints them, and the place in them that belongs to the library under test."""

import re
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import harness
from harness.model.run import Source

HARNESS = f"{Path(harness.__file__).parent}/"
STANDARD = tuple(f"{sysconfig.get_path(which)}/" for which in ("stdlib", "platstdlib"))
PACKAGES = ("/site-packages/", "/dist-packages/")
FRAMEWORKS = ("/torch/", "/triton/", "/numpy/")
FRAME = re.compile(r'  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)')
THREAD = re.compile(r"(Current thread|Thread) 0x")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFrame:
    """One line of a stack."""

    function: str
    source: Source

    @property
    def is_library(self) -> bool:
        """False for code of Python, torch, Triton, NumPy and the harness."""
        file = self.source.file
        installed = any(part in file for part in PACKAGES)
        if file.startswith(("<", HARNESS)) or (file.startswith(STANDARD) and not installed):
            return False
        return not (installed and any(part in file for part in FRAMEWORKS))


Stack = tuple[StackFrame, ...]
"""Innermost frame first."""


def parse(text: str) -> tuple[Stack, ...]:
    """The stacks of all threads in the text, in its order."""
    stacks: list[list[StackFrame]] = []
    for line in text.splitlines():
        if THREAD.match(line):
            stacks.append([])
        elif stacks and (frame := FRAME.match(line)):
            source = Source(file=frame["file"], line=int(frame["line"]))
            stacks[-1].append(StackFrame(function=frame["function"], source=source))
    return tuple(map(tuple, stacks))


def at_fault(stacks: Sequence[Stack]) -> Stack:
    """The stack that does the case's work, from the library's innermost frame outwards; empty if none is known.

    A backward pass may run in a thread that torch started, so a stack without the harness comes second.
    """
    for called_by_harness in (True, False):
        for stack in stacks:
            if called_by_harness and not any(frame.source.file.startswith(HARNESS) for frame in stack):
                continue
            inner = next((at for at, frame in enumerate(stack) if frame.is_library), None)
            if inner is not None:
                return stack[inner:]
    return ()


def common(samples: Sequence[Stack]) -> StackFrame | None:
    """The innermost of the library's functions that all samples of one stack have in common."""
    if not samples or not all(samples):
        return None
    shared: StackFrame | None = None
    for frames in zip(*map(reversed, samples), strict=False):
        if len({_function(frame) for frame in frames}) > 1:
            break
        if frames[0].is_library:
            shared = frames[0]
    return shared


def _function(frame: StackFrame) -> tuple[str, str]:
    return frame.source.file, frame.function
