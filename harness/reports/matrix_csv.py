"""The matrix as CSV: one line for each config of a kernel on each device."""

import csv
import io
from collections.abc import Iterator

from harness.documents.build_matrix import BuildMatrix
from harness.matrix.cells import Cell
from harness.matrix.kernel_summaries import summaries

COLUMNS = (
    "kernel",
    "source",
    "environment",
    "config",
    "kept",
    "device",
    "target",
    "fits",
    "why not",
    "overrun",
    "shared bytes",
    "tensor memory columns",
    "registers a thread",
    "local bytes a thread",
    "spill store bytes",
    "spill load bytes",
    "local bytes an SM",
    "warps",
    "CTAs",
    "programs an SM",
    "scratch bytes a program",
    "scratch alignment",
    "profile scratch bytes a program",
    "instructions",
    "compiler CPU seconds",
)


def csv_text(matrix: BuildMatrix) -> str:
    """Return the whole file."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for kernel in summaries(matrix):
        writer.writerows((kernel.title, *_values(cell)) for cell in kernel.cells)
    return out.getvalue()


def _values(cell: Cell) -> Iterator[object]:
    facts, build = cell.facts, cell.build
    reasons = [lack.seen for lack in cell.shortages] or [facts.unknown]
    yield cell.kernel.source or ""
    yield cell.kernel.environment
    yield build.config
    yield "yes" if build.is_kept else "no"
    yield cell.device
    yield cell.target
    yield "unknown" if facts.unknown else "yes" if cell.fits else "no"
    yield "; ".join(filter(None, reasons))
    yield f"{max((lack.overrun for lack in cell.shortages), default=0.0):.3f}"
    yield facts.shared_bytes
    yield facts.tensor_memory_columns
    yield facts.registers_per_thread
    yield facts.local_bytes_per_thread
    yield facts.spill_store_bytes
    yield facts.spill_load_bytes
    yield cell.local_bytes_per_sm
    yield facts.num_warps
    yield facts.num_ctas
    yield cell.programs_per_sm
    yield facts.scratch_bytes_per_program
    yield facts.scratch_align
    yield facts.profile_scratch_bytes_per_program
    yield facts.instructions
    yield facts.cpu_seconds
