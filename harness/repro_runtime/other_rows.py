"""The row check of a reproducer: the file itself calls the library again with other rows, and says which to compare.

`KEPT` has for each result its axes that carry rows, each with the compared indices of both calls.  `OTHER_ROWS` has
what the second call changes, and `TOLERANCE` what two right results may differ by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self

import torch

from harness.execution.result_forms import Tensors
from harness.execution.row_trials import Allowance, CarriedRows, difference
from harness.model.ending import Ending
from harness.model.row_check import RowChange, RowCheck, RowDifference, RowTrial


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRows:
    """What a file says of its second call."""

    kept: Mapping[str, CarriedRows]
    words: Mapping[str, Any]

    @classmethod
    def of(cls, file: ModuleType) -> Self | None:
        """Return what the file says; None if it has no second call."""
        kept: Mapping[str, Sequence[tuple[int, list[int], list[int]]]] | None = getattr(file, "KEPT", None)
        if kept is None:
            return None
        rows = {
            name: CarriedRows(
                here={axis: torch.tensor(here) for axis, here, _ in axes},
                there={axis: torch.tensor(there) for axis, _, there in axes},
            )
            for name, axes in kept.items()
        }
        return cls(kept=rows, words=file.OTHER_ROWS)

    def differences(
        self, before: Tensors, after: Tensors, allowances: Mapping[str, Allowance]
    ) -> tuple[RowDifference, ...]:
        """Return the results of both calls that differ."""
        names = [name for name in self.kept if name in before and name in after]
        found = (difference(name, (before[name], after[name]), self.kept[name], allowances[name]) for name in names)
        return tuple(filter(None, found))

    def check(self, ending: Ending, differences: tuple[RowDifference, ...], torch_sums: tuple[str, ...]) -> RowCheck:
        """Return the row check with this one trial."""
        words = self.words
        trial = RowTrial(
            change=RowChange(words["change"]),
            dims=words["dims"],
            rows=words["count"],
            ending=ending,
            compared=tuple(self.kept),
            differences=differences,
            torch_sums=torch_sums,
        )
        return RowCheck(rows=words["rows"], is_packed=words["is_packed"], trials=(trial,))
