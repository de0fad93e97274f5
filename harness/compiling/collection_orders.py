"""What the parent tells the workers that collect kernels."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.model.kernel_build import CompileTarget

FACTORY = "harness.compiling.collecting_engine:CollectingEngine"
ORDERS_VARIABLE = "HARNESS_MATRIX"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionOrders:
    """What the parent tells the workers of one device, as JSON in a variable."""

    cache: str
    collections: Mapping[str, str]
    """Keys of collections by suite."""
    targets: tuple[CompileTarget, ...]
    specialisations: int
    """The most for each kernel of a suite."""
