"""How many programs a launch has, along each axis."""

from dataclasses import dataclass

from harness.model.device import GRID_LIMITS


@dataclass(frozen=True, slots=True)
class Grid:
    """The extents of a launch."""

    x: int
    y: int
    z: int

    @property
    def programs(self) -> int:
        """How many programs run."""
        return self.x * self.y * self.z

    @property
    def is_launchable(self) -> bool:
        """Whether CUDA takes it."""
        return all(
            extent <= limit for extent, limit in zip((self.x, self.y, self.z), GRID_LIMITS.values(), strict=True)
        )
