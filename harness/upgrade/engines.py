"""Which engine runs the cases of an upgrade, what its results say, and what its workers are told."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from harness.errors import UsageError
from harness.model.engine_traits import PTX, VIRTUAL, EngineTraits

ORDERS_VARIABLE = "HARNESS_UPGRADE"


class Turn(StrEnum):
    """What workers do with a case."""

    RECORD = "record"
    COMPARE = "compare"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeOrders:
    """What the parent tells the workers of one device, as JSON in a variable."""

    turn: Turn
    folders: Mapping[str, str]
    """By suite, the folder of its records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingChoice:
    """An engine that can see launches before and after it executes them."""

    factory: str
    """Of the recording engine, as `WorkerSpec.engine`."""
    executes_ptx: bool
    """True if results follow from the PTX.  False: from the TTIR, so that equal TTIR is not worth a comparison."""


RECORDING: Mapping[str, RecordingChoice] = {
    VIRTUAL.name: RecordingChoice(
        factory="harness.upgrade.upgrade_engine:UpgradeEngine",
        executes_ptx=False,
    ),
    PTX.name: RecordingChoice(
        factory="harness.upgrade.upgrade_engine:PtxUpgradeEngine",
        executes_ptx=True,
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
