"""The matrix as one self-contained page: a heat map of kernels by devices, and one of configs for each kernel."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from harness.documents.build_matrix import BuildMatrix
from harness.matrix.cells import Cell
from harness.matrix.kernel_summaries import KernelSummary, summaries
from harness.reports.matrix_text import lines, short_config
from harness.wording import counted

STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color: #222; background: #fff }
table { border-collapse: collapse; margin: 0.5em 0 1.5em }
th, td { border: 1px solid #ddd; padding: 2px 6px; text-align: right; font-variant-numeric: tabular-nums }
th:first-child, td:first-child { text-align: left; font-family: ui-monospace, monospace; font-size: 12px }
td.dropped { opacity: 0.45 } td.unknown { background: #eee } td.none { border-style: dashed }
pre { font-size: 12px } summary { cursor: pointer; font-family: ui-monospace, monospace }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } th, td { border-color: #444 }
td.unknown { background: #333 } }
"""
FITS_HUE, FAILS_HUE = 140, 0
SPILLED_BYTES = 4096
"""Local memory a thread at which a cell has its full colour."""


def matrix_page(matrix: BuildMatrix) -> str:
    """Return the page; it loads nothing."""
    kernels = summaries(matrix)
    devices = tuple(dict.fromkeys(row.device for row in matrix.rows))
    title = f"Kernels of {', '.join(matrix.libraries) or 'the suites'} on {counted(len(devices), 'GPU')}"
    body = "".join(_body(matrix, kernels, devices))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )


def _body(matrix: BuildMatrix, kernels: Sequence[KernelSummary], devices: Sequence[str]) -> Iterator[str]:
    releases = ", ".join(f"{name} {release}" for name, release in matrix.versions.items())
    yield f"<p>{escape(releases)}</p>"
    yield "<p>A cell has the kept configs that fit, of all that are kept. Green: all, red: none.</p>"
    yield "<table><thead>" + _row("th", ("kernel", *devices)) + "</thead><tbody>"
    for kernel in kernels:
        by_device = kernel.by_device
        yield f"<tr><td>{escape(kernel.title)}</td>"
        yield "".join(_kernel_cell(by_device.get(device, ())) for device in devices)
        yield "</tr>"
    yield "</tbody></table><h2>Configs</h2>"
    yield "<p>A cell has the local memory in bytes a thread, or what is exceeded. Pale: dropped by pruning.</p>"
    for kernel in kernels:
        yield from _configs(kernel, devices)
    yield f"<h2>Summary</h2><pre>{escape(chr(10).join(lines(matrix)))}</pre>"


def _configs(kernel: KernelSummary, devices: Sequence[str]) -> Iterator[str]:
    yield f"<details><summary>{escape(kernel.title)}: {counted(len(kernel.configs), 'config')}</summary><table><thead>"
    yield _row("th", ("config", *devices)) + "</thead><tbody>"
    for config, cells in kernel.by_config.items():
        by_device = {cell.device: cell for cell in cells}
        yield f"<tr><td>{escape(short_config(config))}</td>"
        yield "".join(_config_cell(by_device.get(device)) for device in devices)
        yield "</tr>"
    yield "</tbody></table></details>"


def _kernel_cell(cells: Iterable[Cell]) -> str:
    kept = [cell for cell in cells if cell.build.is_kept]
    if not kept:
        return '<td class="none"></td>'
    if all(cell.facts.unknown for cell in kept):
        return f'<td class="unknown" title="{escape(kept[0].facts.unknown)}">?</td>'
    fitting = sum(cell.fits for cell in kept)
    why = "; ".join(dict.fromkeys(lack.seen for cell in kept for lack in cell.shortages))
    hue = FAILS_HUE + (FITS_HUE - FAILS_HUE) * fitting // len(kept)
    return f'<td style="background: hsl({hue} 60% 70%); color: #111" title="{escape(why)}">{fitting}/{len(kept)}</td>'


def _config_cell(cell: Cell | None) -> str:
    if cell is None:
        return '<td class="none"></td>'
    dropped = "" if cell.build.is_kept else " dropped"
    facts = cell.facts
    if facts.unknown:
        return f'<td class="unknown{dropped}" title="{escape(facts.unknown)}">?</td>'
    if cell.shortages:
        seen = "; ".join(lack.seen for lack in cell.shortages)
        style = f"background: hsl({FAILS_HUE} 60% 70%); color: #111"
        return f'<td class="{dropped.strip()}" style="{style}" title="{escape(seen)}">{cell.shortages[0].place}</td>'
    depth = min(1.0, facts.local_bytes_per_thread / SPILLED_BYTES)
    style = f"background: hsl(30 90% 55% / {depth:.2f})"
    figures = f"{facts.registers_per_thread} registers, {facts.shared_bytes} bytes shared, {cell.programs_per_sm} an SM"
    return f'<td class="{dropped.strip()}" style="{style}" title="{figures}">{facts.local_bytes_per_thread}</td>'


def _row(tag: str, texts: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts) + "</tr>"
