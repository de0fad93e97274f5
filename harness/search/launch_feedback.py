"""Launch feedback: facts about an op's launches that guide the choice of its next cases."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from harness.model.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFeedback:
    """Facts about an op's kernels.  Joining two with `|` is commutative and associative."""

    tile_sizes: frozenset[int] = frozenset()
    """Extents of the blocks that kernels load and store, in elements."""
    configs: Mapping[str, int] = field(default_factory=dict[str, int])
    """By autotuned kernel, the largest number of configs that survived pruning."""
    needs_scratch: bool = False
    """True if a kernel needs scratch memory."""

    picked: frozenset[tuple[str, str]] = frozenset()
    """Configs that host code picked in cases, by the slug of the device and the label of the config."""

    @classmethod
    def of(cls, run: Run) -> "LaunchFeedback":
        return cls(
            tile_sizes=frozenset(size for launch in run.launches for size in launch.tile_sizes),
            configs={launch.kernel: launch.config_count for launch in run.launches if launch.config_count > 1},
            needs_scratch=any(launch.scratch_bytes for launch in run.launches),
            picked=frozenset((run.case.device.slug, picked.label) for picked in run.case.picked),
        )

    @property
    def without_configs(self) -> "LaunchFeedback":
        """The same, as if no kernel were autotuned: each then takes its first config, which compiles once."""
        return replace(self, configs={})

    def __or__(self, other: "LaunchFeedback") -> "LaunchFeedback":
        # Sorted, since Hypothesis draws a config for each kernel in this order.
        kernels = sorted({*self.configs, *other.configs})
        return LaunchFeedback(
            tile_sizes=self.tile_sizes | other.tile_sizes,
            configs={kernel: max(self.configs.get(kernel, 0), other.configs.get(kernel, 0)) for kernel in kernels},
            needs_scratch=self.needs_scratch or other.needs_scratch,
            picked=self.picked | other.picked,
        )
