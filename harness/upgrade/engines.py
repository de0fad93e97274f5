"""Which engine runs the cases of an upgrade, and what its results say."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import UsageError
from harness.model.engine_traits import VIRTUAL, EngineTraits


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingChoice:
    """An engine that can see launches before and after it executes them."""

    factory: str
    """Of the recording engine, as `WorkerSpec.engine`."""
    executes_ptx: bool
    """True if results follow from the PTX.  False: from the TTIR, so that equal TTIR is not worth a comparison."""


RECORDING: Mapping[str, RecordingChoice] = {
    VIRTUAL.name: RecordingChoice(
        factory="harness.upgrade.recording_engine:RecordingEngine",
        executes_ptx=False,
    ),
}
"""By the name of an engine."""


def recording_choice(engine: EngineTraits) -> RecordingChoice:
    """Return how an engine records.

    Raises:
        UsageError: it does not.
    """
    if engine.name not in RECORDING:
        raise UsageError(f"--engine {engine}: an upgrade runs cases on {', '.join(RECORDING)} alone")
    return RECORDING[engine.name]
