"""What an engine without a GPU tells Inductor: who chooses configs, and where files go.

This file is light: it imports neither torch nor Inductor.  `compiled_calls` reads it when an op first compiles.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


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
    parts: list[Mapping[str, int]] = field(default_factory=list[Mapping[str, int]])
    """For each compiled program of the case, what torch's own operators compute of it; a backward pass adds to it."""

    @property
    def eager(self) -> Mapping[str, int]:
        """What torch's own operators computed in the case: operators and graph breaks, with the number of calls."""
        return sum(map(Counter[str], self.parts), Counter[str]())


EMULATION = InductorEmulation()
