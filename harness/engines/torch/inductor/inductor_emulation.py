"""The settings of an engine without a GPU for Inductor: who chooses configs, and where files go.

This file is light: it imports neither torch nor Inductor.  `compiled_calls` reads it when an op first compiles.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Protocol

from harness.errors import CannotExecute

RELEASES = ("2.13",)
"""The releases of torch whose Inductor the virtual GPU was run with."""
RUN = f"torch {RELEASES[0]}"
"""The same, as patches name it."""
COMPILED_GRAPH = "__compiled_fn_"
"""How the names of compiled graphs begin, among the globals of a function."""


class ConfigChoice(Protocol):
    """Decides which config of a kernel is launched."""

    @property
    def requested(self) -> Mapping[str, int]:
        """The index of the config to take, by the name of a kernel."""
        ...

    def launching_as(self, text: str, index: int, count: int) -> AbstractContextManager[None]:
        """Record launches as launches with this config while the context lasts."""
        ...


@dataclass(slots=True)
class InductorEmulation:
    """The emulation of this process."""

    choice: ConfigChoice | None = None
    """None on hardware: torch compiles for the GPU that it finds."""
    folder: Path = Path()
    """Where the device guard is built."""
    is_in_program: bool = False
    """True while a compiled program is called, and compiled if need be.  Its backward pass is no part of that."""
    parts: list[Mapping[str, int]] = field(default_factory=list[Mapping[str, int]])
    """For each compiled program of the case, what torch's own operators compute of it; a backward pass adds to it."""

    @property
    def eager(self) -> Mapping[str, int]:
        """Calls of torch's own operators and graph breaks in the case, counted."""
        return sum(map(Counter[str], self.parts), Counter[str]())


EMULATION = InductorEmulation()


def load_dynamo() -> None:
    """Import TorchDynamo, which takes 0.8 s: torch's modes and most libraries import it."""
    import_module("torch._dynamo")


def check_release(version: str) -> None:
    """Refuse a torch whose Inductor the virtual GPU has not been run with.

    Raises:
        CannotExecute: it is another release.
    """
    release = ".".join(version.split(".")[:2])
    if release not in RELEASES:
        remedy = f"pip install 'torch=={RELEASES[-1]}.*'"
        raise CannotExecute(f"Inductor of torch {version} (known: {', '.join(RELEASES)}; {remedy})")


def is_compiled(code: CodeType) -> bool:
    """Return True for the code that TorchDynamo puts in the place of a function: it calls compiled graphs."""
    return any(name.startswith(COMPILED_GRAPH) for name in code.co_names)
