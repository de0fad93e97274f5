"""The launch behind a wrong result, and the likely cause of NaN: fresh memory that was to be stored, and was read."""

from dataclasses import dataclass

from harness.model.paired_run import launch_of
from harness.model.run import PartlyStored, Run, Source, UninitialisedRead

MEMORY = (
    "The result follows memory that nothing has stored: often zeros in a test, and another tensor's values in a "
    "long-running program.  Buffers with a row for each SM show it on GPUs with more SMs than there is work."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyCause:
    """What a failure says beside the wrong value."""

    words: str
    """The end of the message; empty if nothing is known."""
    source: Source | None
    """The line of the kernel at fault."""
    launch_index: int | None
    """None if only the kernel is known, or nothing."""


def likely_cause(run: Run, kernel: str, *, is_nan: bool) -> LikelyCause:
    """Return the likely cause of a wrong value that the kernel stored last; without a kernel, torch computed it."""
    rest = max(run.partly_stored, key=lambda tensor: tensor.cells, default=None) if is_nan else None
    if rest is None:
        launch = launch_of(run.launches, kernel)
        return LikelyCause(words="", source=launch.source if launch else None, launch_index=None)
    launch = run.launches[rest.launch]
    at = f" ({launch.source})" if launch.source else ""
    words = f"; likely cause: no program of {launch.kernel}{at} stored {_part(rest)}"
    return LikelyCause(words=words, source=launch.source, launch_index=rest.launch)


def reads_fresh_integers(run: Run) -> bool:
    """Return True if a kernel reads integers that nothing has stored: a wrong value may follow from them."""
    return any(isinstance(event, UninitialisedRead) and event.is_integer for event in run.memory)


def _part(rest: PartlyStored) -> str:
    """Return `rows 4 to 187 of dw, which has 188`."""
    noun = "row" if len(rest.shape) > 1 else "element"
    if rest.rows is None:
        return f"{rest.cells} elements of {rest.argument}"
    first, last = rest.rows
    which = f"{noun} {first}" if first == last else f"{noun}s {first} to {last}"
    return f"{which} of {rest.argument}, which has {next(iter(rest.shape))}"
