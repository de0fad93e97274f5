"""How many value variants are submitted at once: as many as run while a batch is drawn.

What is drawn, or compiled meanwhile, waits for the variants that are queued before it.
"""

from harness.model.run import Run
from harness.workers.dispatcher import KEEP_BUSY

VALUE_VARIANTS_PER_PROCESS = 64
"""The most for each process.  As many variants may wait for their paired runs.

A paired run may need a new config, and compiling one config can take longer than running a thousand variants.
"""
DRAWING_S = 1.0
"""The time that drawing a batch takes."""
NEW_SHARE = 0.1
"""The part of the mean that the latest variant has."""


class VariantPace:
    """The pace of one campaign."""

    def __init__(self, processes: int) -> None:
        """`processes` is how many cases run at once."""
        self._processes = processes
        self._case_s: float | None = None

    @property
    def most(self) -> int:
        """The most variants that are ever submitted at once."""
        return VALUE_VARIANTS_PER_PROCESS * self._processes

    @property
    def at_once(self) -> int:
        """How many variants to submit at once now; few until one has run."""
        least = KEEP_BUSY * self._processes
        if self._case_s is None:
            return least
        enough = DRAWING_S / max(self._case_s, DRAWING_S / VALUE_VARIANTS_PER_PROCESS)
        return max(least, round(enough * self._processes))

    def note(self, run: Run) -> None:
        """Learn from a variant how long they take."""
        seconds = sum(run.seconds.values())
        self._case_s = seconds if self._case_s is None else (1 - NEW_SHARE) * self._case_s + NEW_SHARE * seconds
