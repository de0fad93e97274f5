"""The table of row checks: op, kernel and config by device, and whether a row has the same bits in other company."""

from collections.abc import Iterable
from dataclasses import dataclass

from harness.documents.campaign import RowCount
from harness.model.row_check import RowBits

NAMED = 3
"""The most configs that a line names."""
NO_CONFIG = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTableLine:
    """Configs of one kernel of one op with the same words on every device."""

    op: str
    """Without its file."""
    kernel: str
    configs: tuple[str, ...]
    """Empty for a kernel without an autotuner."""
    cells: tuple[str, ...]
    """By device, in words: `same bits`, or `rounding in 2 of 9`."""

    @property
    def config_words(self) -> str:
        if not self.configs:
            return NO_CONFIG
        more = len(self.configs) - NAMED
        return "; ".join(self.configs[:NAMED]) + (f"; and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTable:
    """The whole table."""

    devices: tuple[str, ...]
    lines: tuple[RowTableLine, ...]


def row_table(counts: Iterable[RowCount]) -> RowTable:
    """Return the table of these counts; configs with the same words share a line."""
    rows = tuple(counts)
    devices = tuple(sorted({row.device for row in rows}))
    by_config: dict[tuple[str, str, str], dict[str, dict[RowBits, int]]] = {}
    for row in rows:
        cells = by_config.setdefault((row.op, row.kernel, row.config), {})
        of_device = cells.setdefault(row.device, {})
        of_device[row.bits] = of_device.get(row.bits, 0) + row.cases
    configs: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (op, kernel, config), cells in sorted(by_config.items()):
        worst = tuple(_worst(cells.get(device, {})) for device in devices)
        configs.setdefault((op, kernel, worst), []).append(config)
    lines: list[RowTableLine] = []
    for (op, kernel, _), group in configs.items():
        summed = [[by_config[op, kernel, config].get(device, {}) for config in group] for device in devices]
        lines.append(
            RowTableLine(
                op=op.rpartition(":")[2],
                kernel=kernel or "torch",
                configs=tuple(filter(None, group)),
                cells=tuple(map(_words, summed)),
            )
        )
    return RowTable(devices=devices, lines=tuple(lines))


def _worst(counts: dict[RowBits, int]) -> str:
    return max(counts, key=tuple(RowBits).index) if counts else ""


def _words(counts: Iterable[dict[RowBits, int]]) -> str:
    """Return the worst of these counts in words, with the number of cases that show it."""
    sums: dict[RowBits, int] = {}
    for each in counts:
        for bits, cases in each.items():
            sums[bits] = sums.get(bits, 0) + cases
    if not sums:
        return "not compared"
    worst, total = RowBits(_worst(sums)), sum(sums.values())
    return f"{worst} ({total})" if worst is RowBits.SAME else f"{worst} in {sums[worst]} of {total}"
