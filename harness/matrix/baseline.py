"""What changed since another matrix: between releases of a library, or of Triton."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness.documents.build_matrix import BuildMatrix
from harness.documents.files import read
from harness.errors import ReplayError, UsageError
from harness.matrix.cells import Cell
from harness.matrix.kernel_summaries import KernelSummary, scratch_of, summaries

CellId = tuple[str, str, str]
"""Title of the kernel, config without settings that are None, device."""


class Figure(StrEnum):
    """What `--fail-on` names.  More of it is worse."""

    SPILLS = "spills"
    """Local memory of a thread, in bytes."""
    SHARED = "shared"
    """Shared memory of a CTA, in bytes."""
    REGISTERS = "registers"
    SCRATCH = "scratch"
    """Scratch memory of a program, in bytes."""
    FITS = "fits"
    """1 if the config cannot run, else 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureChange:
    """One figure of one config on one device, before and now."""

    figure: Figure
    kernel: str
    config: str
    device: str
    before: int
    now: int
    why: str = ""
    """Why the config cannot run now."""

    @property
    def is_worse(self) -> bool:
        return self.now > self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """All differences between two matrices."""

    changed: tuple[FigureChange, ...]
    compared: int
    """Cells that both have."""
    new: tuple[CellId, ...]
    gone: tuple[CellId, ...]

    def worse(self, figures: Iterable[Figure]) -> tuple[FigureChange, ...]:
        wanted = frozenset(figures)
        return tuple(change for change in self.changed if change.is_worse and change.figure in wanted)


def read_baseline(path: Path, libraries: Iterable[str]) -> BuildMatrix:
    """Read a matrix of the same libraries, in whatever release.

    Raises:
        UsageError: the file holds something else; the text is one line.
    """
    try:
        matrix = read(path, BuildMatrix)
    except ReplayError as error:
        raise UsageError(f"--baseline {error}") from None
    before, now = (_names(specs) for specs in (matrix.libraries, libraries))
    if before != now and None not in (before, now):
        raise UsageError(f"--baseline {path}: a matrix of {_listed(before)}, where this one is of {_listed(now)}")
    return matrix


def changes(before: BuildMatrix, now: BuildMatrix) -> Changes:
    """Compare two matrices cell by cell; devices that only one of them has are left out."""
    devices = set(_devices(before)) & set(_devices(now))
    old, new = (_by_id(summaries(matrix), devices) for matrix in (before, now))
    shared = [each for each in new if each in old]
    return Changes(
        changed=tuple(change for each in shared for change in _changes(each, old[each], new[each])),
        compared=len(shared),
        new=tuple(each for each in new if each not in old),
        gone=tuple(each for each in old if each not in new),
    )


def _devices(matrix: BuildMatrix) -> Iterator[str]:
    return (row.device for row in matrix.rows)


def _by_id(kernels: Iterable[KernelSummary], devices: set[str]) -> Mapping[CellId, Cell]:
    return {
        (kernel.title, lasting_config(cell.build.config), cell.device): cell
        for kernel in kernels
        for cell in kernel.cells
        if cell.device in devices
    }


def lasting_config(config: str) -> str:
    """Return a config without settings that are None: each release of Triton prints others of them."""
    return ", ".join(part for part in config.split(", ") if not part.endswith(": None"))


def _changes(cell_id: CellId, before: Cell, now: Cell) -> Iterator[FigureChange]:
    """Yield the figures that differ.  A cell that cannot be compiled on either side has one figure, that it fits."""
    kernel, config, device = cell_id
    if before.facts.unknown or now.facts.unknown:
        return
    both = not before.facts.failure and not now.facts.failure
    for figure in Figure:
        old, new = _value(before, figure), _value(now, figure)
        if old != new and (both or figure is Figure.FITS):
            why = now.shortages[0].seen if figure is Figure.FITS and now.shortages else ""
            yield FigureChange(figure=figure, kernel=kernel, config=config, device=device, before=old, now=new, why=why)


def _value(cell: Cell, figure: Figure) -> int:
    match figure:
        case Figure.SPILLS:
            return cell.facts.local_bytes_per_thread
        case Figure.SHARED:
            return cell.facts.shared_bytes
        case Figure.REGISTERS:
            return cell.facts.registers_per_thread
        case Figure.SCRATCH:
            return scratch_of(cell.facts)
        case Figure.FITS:
            return int(bool(cell.shortages))


def _names(specs: Iterable[str]) -> frozenset[str] | None:
    """Return the distributions that specs name; None if one is a folder or a file, which may be any."""
    named = tuple(specs)
    if any("/" in spec for spec in named):
        return None
    return frozenset(re.split(r"[\s=<>!~\[;]", spec, maxsplit=1)[0].lower().replace("_", "-") for spec in named)


def _listed(names: frozenset[str] | None) -> str:
    return ", ".join(sorted(names or ())) or "no library"
