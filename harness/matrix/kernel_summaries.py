"""The summary of a matrix: what fits where, where pruning and limits disagree, and cliffs between architectures."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.documents.build_matrix import BuildMatrix
from harness.matrix.cells import Cell, cells_of
from harness.model.kernel_build import BuildFacts

CLIFF_BYTES = 1024
"""The least difference of local memory per thread that is called a cliff between two architectures."""
CLIFF_FACTOR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSummary:
    """One kernel on all devices."""

    kernel: str
    variant: int
    """Counts the kernel's specialisations from 0."""
    cells: tuple[Cell, ...]

    @property
    def title(self) -> str:
        """The kernel, the number of its specialisation, and the environment, where they are not the first and usual."""
        number = f"#{self.variant + 1}" if self.variant else ""
        environment = self.cells[0].kernel.environment
        return f"{self.kernel}{number}{f' [{environment}]' if environment else ''}"

    @property
    def configs(self) -> tuple[str, ...]:
        """All configs of the autotuner, on whatever device."""
        return tuple(dict.fromkeys(cell.build.config for cell in self.cells))

    @property
    def by_device(self) -> Mapping[str, tuple[Cell, ...]]:
        return _grouped(self.cells, lambda cell: cell.device)

    @property
    def by_config(self) -> Mapping[str, tuple[Cell, ...]]:
        return _grouped(self.cells, lambda cell: cell.build.config)

    @property
    def is_pruned(self) -> bool:
        return any(not cell.build.is_kept for cell in self.cells)

    @property
    def fitting_devices(self) -> tuple[str, ...]:
        """Devices on which every config fits that pruning keeps."""
        return tuple(
            device for device, cells in self.by_device.items() if all(cell.fits for cell in cells if cell.build.is_kept)
        )

    @property
    def starved_devices(self) -> tuple[str, ...]:
        """Devices on which no config is left that pruning keeps."""
        return tuple(
            device
            for device, cells in self.by_device.items()
            if all(cell.shortages for cell in cells if cell.build.is_kept)
        )

    @property
    def dead_configs(self) -> tuple[str, ...]:
        """Configs that run on no device."""
        return tuple(config for config, cells in self.by_config.items() if all(cell.shortages for cell in cells))

    @property
    def worst(self) -> Cell | None:
        """The cell that exceeds a limit the most; None if no limit with a figure is exceeded."""
        over = [cell for cell in self.cells if any(lack.limit for lack in cell.shortages)]
        return max(over, key=lambda cell: max(lack.overrun for lack in cell.shortages), default=None)

    @property
    def kept_but_impossible(self) -> tuple[Cell, ...]:
        """Cells that pruning keeps and a limit excludes."""
        return tuple(cell for cell in self.cells if cell.build.is_kept and cell.shortages)

    @property
    def dropped_but_possible(self) -> tuple[Cell, ...]:
        """Cells that pruning drops and that fit."""
        return tuple(cell for cell in self.cells if not cell.build.is_kept and cell.fits)

    @property
    def cliff(self) -> "Cliff | None":
        """The worst cliff of local memory between two architectures; None if there is none."""
        cliffs = (Cliff.between(cells) for cells in self.by_config.values())
        return max((cliff for cliff in cliffs if cliff is not None), key=lambda each: each.difference, default=None)

    def largest(self, fact: str) -> int:
        """Return the largest value of a fact, over all builds."""
        return max((getattr(cell.facts, fact) for cell in self.cells), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cliff:
    """The same config, with far more local memory on one architecture than on another."""

    config: str
    low: Cell
    high: Cell

    @property
    def difference(self) -> int:
        return self.high.facts.local_bytes_per_thread - self.low.facts.local_bytes_per_thread

    @classmethod
    def between(cls, cells: Sequence[Cell]) -> "Cliff | None":
        """Return the cliff between the least and the most local memory of one config, if it is one."""
        built = [cell for cell in cells if cell.facts.registers_per_thread]
        if not built:
            return None
        low, high = min(built, key=_local), max(built, key=_local)
        cliff = cls(config=low.build.config, low=low, high=high)
        is_steep = _local(high) >= CLIFF_FACTOR * _local(low)
        return cliff if cliff.difference >= CLIFF_BYTES and is_steep else None


def summaries(matrix: BuildMatrix) -> tuple[KernelSummary, ...]:
    """Return a summary of each kernel, in the order of the matrix."""
    cells_of_kernels: dict[tuple[str, str, int], list[Cell]] = {}
    for variant, cell in _with_variants(cells_of(matrix)):
        cells_of_kernels.setdefault((cell.kernel.kernel, cell.kernel.environment, variant), []).append(cell)
    return tuple(
        KernelSummary(kernel=kernel, variant=variant, cells=tuple(cells))
        for (kernel, _, variant), cells in cells_of_kernels.items()
    )


def _with_variants(cells: Iterable[Cell]) -> Iterator[tuple[int, Cell]]:
    """Yield the number of a kernel's specialisation on the device and in its environment, and the cell.

    Constants may follow from the SM count, so specialisations of different devices are matched by their order.
    """
    seen: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for cell in cells:
        kernel = cell.kernel
        known = seen[cell.device, kernel.kernel, kernel.environment]
        if kernel.specialisation not in known:
            known.append(kernel.specialisation)
        yield known.index(kernel.specialisation), cell


def _grouped(cells: Iterable[Cell], key: Callable[[Cell], str]) -> Mapping[str, tuple[Cell, ...]]:
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return {name: tuple(group) for name, group in groups.items()}


def _local(cell: Cell) -> int:
    return cell.facts.local_bytes_per_thread


def scratch_of(facts: BuildFacts) -> int:
    """Return the bytes of scratch memory for one program, of both kinds."""
    return facts.scratch_bytes_per_program + facts.profile_scratch_bytes_per_program
