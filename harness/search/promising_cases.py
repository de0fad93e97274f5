"""Finds the promising cases of a campaign.

Which case was the first follows from its place in the campaign, and not from the time at which its run came back.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from harness.model.case import Case, Scale
from harness.model.executed_lines import FileLines
from harness.model.promising import Promise, PromisingCase, best_promising
from harness.model.run import Launch, Run

NEAR = 0.5
"""An error above this share of the tolerance is near it."""

Place = tuple[bool, int, str]
"""As `Trial.order_key`."""
_First = tuple[Place, PromisingCase]


_Key = TypeVar("_Key")


@dataclass(slots=True)
class PromisingCases:
    """The promising cases of one campaign so far."""

    _seen: dict[tuple[FileLines, ...], _First] = field(default_factory=dict[tuple[FileLines, ...], _First])
    """By the lines of a launch, the first case that executed exactly these."""
    _launched: dict[Hashable, _First] = field(default_factory=dict[Hashable, _First])
    _near: dict[tuple[str, str], PromisingCase] = field(default_factory=dict[tuple[str, str], PromisingCase])
    """By op and device, the case with the largest error within the tolerance."""

    def count(self, case: Case, place: Place, run: Run) -> None:
        """Count the run of a case.  The order of calls does not affect the result."""
        if case.scale is not Scale.USUAL:
            return
        for lines in run.lines:
            _keep_first(self._seen, lines.files, (place, _row(case, Promise.NEW_LINE)))
        for launch in run.launches:
            _keep_first(self._launched, _shape_of(launch), (place, _row(case, Promise.NEW_LAUNCH)))
        error = max((max(result.whole.ratio, result.worst_tile.ratio) for result in run.results), default=0.0)
        if NEAR < error <= 1.0 and all(result.is_right for result in run.results):
            row = _row(case, Promise.NEAR_TOLERANCE, error)
            pair = (row.op, row.device)
            self._near[pair] = best_promising(filter(None, (row, self._near.get(pair))))[0]

    def rows(self) -> tuple[PromisingCase, ...]:
        launched = (row for _, row in self._launched.values())
        return best_promising((*self._near.values(), *self._first_on_lines(), *launched))

    def _first_on_lines(self) -> Iterator[PromisingCase]:
        """Yield the first case of each line."""
        executed = set[tuple[str, int]]()
        for files, (_, row) in sorted(self._seen.items(), key=lambda item: (item[1][0], item[0])):
            places = {(one.file, line) for one in files for line in one.lines}
            if not places <= executed:
                executed |= places
                yield row


def _keep_first(kept: dict[_Key, _First], key: _Key, first: _First) -> None:
    known = kept.get(key)
    if known is None or first[0] < known[0]:
        kept[key] = first


def _row(case: Case, reason: Promise, error: float = 0.0) -> PromisingCase:
    return PromisingCase(op=case.op, device=case.device.slug, reason=reason, case=case, error=error)


def _shape_of(launch: Launch) -> Hashable:
    """Return what launches have in common that are much alike: an extent of the grid counts as a power of 2."""
    extents = tuple(extent.bit_length() for extent in launch.grid)
    return launch.kernel, launch.config, extents, tuple(sorted(launch.constants.items()))
