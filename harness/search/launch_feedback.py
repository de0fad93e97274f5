"""What launches showed, as far as it helps to choose the next cases."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.model.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """Facts about an op's kernels.  Joining hints with `|` gives the same whatever the order."""

    tile_sizes: frozenset[int] = frozenset()
    """Extents of the blocks that kernels load and store, in elements."""
    configs: Mapping[str, int] = field(default_factory=dict[str, int])
    """By autotuned kernel, how many configs survived pruning, at most."""

    @classmethod
    def of(cls, run: Run) -> "Hints":
        """What one run shows."""
        return cls(
            tile_sizes=frozenset(size for launch in run.launches for size in launch.tile_sizes),
            configs={launch.kernel: launch.config_count for launch in run.launches if launch.config_count > 1},
        )

    def __or__(self, other: "Hints") -> "Hints":
        kernels = sorted({*self.configs, *other.configs})
        return Hints(
            tile_sizes=self.tile_sizes | other.tile_sizes,
            configs={kernel: max(self.configs.get(kernel, 0), other.configs.get(kernel, 0)) for kernel in kernels},
        )
