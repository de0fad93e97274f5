"""The builds of two matrices, joined: the same kernel, constants, options and device with both Tritons.

Neither the text of a config nor the digest of a specialisation outlives a release of Triton.  Specialisations of a
kernel are matched by their order, and configs by their constants and options.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from harness.compiling.build_cache import BuildCache
from harness.documents.build_matrix import BuildMatrix
from harness.engines.ttir.own_names import renamed_ttir
from harness.matrix.cells import Cell, cells_of

OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg")
"""The options in which the configs of a kernel may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedBuild:
    """One config of a kernel on one device; one of the releases may not have it."""

    kernel: str
    suite: str
    old: Cell | None
    new: Cell | None
    same_ttir: bool = False

    @property
    def is_compared(self) -> bool:
        """True if both releases compile it."""
        return all(cell is not None and not (cell.facts.failure or cell.facts.unknown) for cell in (self.old, self.new))

    @property
    def same_code(self) -> bool:
        return (
            self.old is not None
            and self.new is not None
            and bool(self.old.facts.assembly)
            and self.old.facts.assembly == self.new.facts.assembly
        )

    @property
    def cell(self) -> Cell:
        """Either cell; the old one if there are both."""
        cell = self.old or self.new
        assert cell is not None
        return cell


def joined(old: Iterable[BuildMatrix], new: Iterable[BuildMatrix], cache: BuildCache) -> tuple[JoinedBuild, ...]:
    """Return the builds of the matrices of both releases, in the order of the old one."""
    before, now = (
        dict(_identified(cell for matrix in matrices for cell in cells_of(matrix))) for matrices in (old, new)
    )

    @lru_cache(maxsize=4096)
    def text(digest: str) -> str:
        return renamed_ttir(cache.ttir(digest))

    def same_ttir(first: Cell | None, second: Cell | None) -> bool:
        if first is None or second is None or not first.build.ttir or not second.build.ttir:
            return False
        return text(first.build.ttir) == text(second.build.ttir)

    builds: list[JoinedBuild] = []
    for identity in dict.fromkeys((*before, *now)):
        first, second = before.get(identity), now.get(identity)
        cell = first or second
        assert cell is not None
        suite = cell.kernel.op.rpartition(":")[0]
        kernel = cell.kernel.kernel
        builds.append(
            JoinedBuild(kernel=kernel, suite=suite, old=first, new=second, same_ttir=same_ttir(first, second))
        )
    return tuple(builds)


def _identified(cells: Iterable[Cell]) -> Iterator[tuple[Hashable, Cell]]:
    """Yield what identifies each cell in both matrices."""
    specialisations: dict[Hashable, list[str]] = defaultdict(list)
    for cell in cells:
        kernel, build = cell.kernel, cell.build
        of = (cell.device, kernel.op.rpartition(":")[0], kernel.kernel, kernel.environment)
        known = specialisations[of]
        if kernel.specialisation not in known:
            known.append(kernel.specialisation)
        constants = tuple(sorted((name, str(value)) for name, value in build.constants.items()))
        options = tuple(str(build.options.get(name)) for name in OPTIONS)
        unprepared = "" if build.options else build.index  # a config that raised before the front end
        yield (*of, known.index(kernel.specialisation), constants, options, unprepared), cell
