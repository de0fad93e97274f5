"""The engine that a user chooses for a search."""

from harness.errors import unknown
from harness.model.engine_traits import ENGINES, EngineTraits, find_engine


def custom_engine(factory: str) -> EngineTraits:
    """Return an engine from outside the harness, as `module:factory`.  The harness leases no GPU for it."""
    return EngineTraits(name=factory, factory=factory)


def parse_engine(text: str) -> EngineTraits:
    """Return the engine for what `--engine` says: a short name, or `module:factory`.

    Raises:
        UsageError: the text is neither; the message names the nearest short name.
    """
    if (known := find_engine(text)) is not None:
        return known
    if ":" not in text:
        raise unknown("engine", text, [engine.name for engine in ENGINES])
    return custom_engine(text)
