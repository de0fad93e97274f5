"""The engine that a user chooses for a search, and the factory that workers load for it."""

from dataclasses import dataclass
from enum import StrEnum

from harness.errors import unknown

COMPILE_AHEAD_FACTORY = "harness.compiling.compile_ahead_engine:CompileAheadEngine"
"""Compiles for `EngineName.CUDA` in other processes.  It launches nothing, so no case is checked there."""


class EngineName(StrEnum):
    """An engine of the harness, as the user types it."""

    VIRTUAL = "virtual"
    CUDA = "cuda"
    BOTH = "cuda,virtual"
    """Launches on the hardware GPU and on the virtual GPU, and compares what they leave."""

    @property
    def factory(self) -> str:
        """Module and name of the callable that makes the engine in a worker."""
        return FACTORIES[self]

    @property
    def needs_gpu(self) -> bool:
        return self is not EngineName.VIRTUAL


@dataclass(frozen=True, slots=True)
class CustomEngine:
    """An engine from outside the harness, given as `module:factory`."""

    factory: str

    def __str__(self) -> str:
        return self.factory

    @property
    def needs_gpu(self) -> bool:
        """False: the harness leases no GPU for an engine that it does not know."""
        return False


EngineChoice = EngineName | CustomEngine
"""`str()` gives the text that `--engine` takes."""

FACTORIES = {
    EngineName.VIRTUAL: "harness.engines.virtual.engine:VirtualEngine",
    EngineName.CUDA: "harness.engines.cuda.engine:CudaEngine",
    EngineName.BOTH: "harness.engines.cuda.comparison.engine:ComparisonEngine",
}
SPELLINGS = {**{str(name): name for name in EngineName}, "virtual,cuda": EngineName.BOTH}
_BY_FACTORY = {factory: name for name, factory in FACTORIES.items()}


def find_engine(text: str) -> EngineName | None:
    """Return the harness's own engine that a short name or a factory names, if there is one."""
    return SPELLINGS.get(text) or _BY_FACTORY.get(text)


def parse_engine(text: str) -> EngineChoice:
    """Return the engine for what `--engine` says: a short name, or `module:factory`.

    Raises:
        UsageError: the text is neither; the message names the nearest short name.
    """
    if (known := find_engine(text)) is not None:
        return known
    if ":" not in text:
        raise unknown("engine", text, SPELLINGS)
    return CustomEngine(text)
