"""The promise that nothing computes with memory that was never stored: no kernel, and no operator of torch."""

from collections.abc import Iterator, Sequence
from math import prod

from harness.model.flaw_kind import FlawKind
from harness.model.run import Completed, Run, Stray, UninitialisedRead, UnwrittenUse
from harness.model.verdict import Fail, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.memory_events import at_line, cells, judge_lines, place_of, shading, was_or_were
from harness.oracles.traits import Causality, PromiseScope, Traits

USED = (
    "The kernel computes with whatever the memory held before: often zeros in a test, and another tensor's values in a "
    "long-running program."
)
DISCARDED = (
    "The memory held NaN, and no result of this case has one that was computed from it: the kernel reads more than it "
    "uses, and masks the rest afterwards. Or it copies the rest, and what computes with the copy fails by itself."
)
UNCOMPARED = (
    "The kernel uses whatever the memory held before, or masks it afterwards. Which of the two is not known, since no "
    "result is compared here."
)
INTEGERS = (
    "No result of this case is wrong, and integers have no NaN that would show their use: the kernel reads more than "
    "it uses, or the values that were there do no harm."
)
USED_BY_TORCH = (
    "The program computes with whatever the memory held before: often zeros in a test, and another tensor's values in "
    "a long-running program. Copies, views and printing are no use. Neither is arithmetic element by element, whose "
    "results may be cut off later."
)
OVERWRITTEN = (
    "Graphs with one memory pool share its memory: what the program no longer holds when another graph is captured is "
    "free for that one."
)
HANDED_OVER = (
    "The host gets the whole memory. What it does with these elements is not followed: it may cut them off, or compute "
    "with whatever the memory held before."
)


class NoUninitialisedReads(SingleRunOracle):
    """Fails on loads of `torch.empty` memory that no launch had stored by then, and on its use by torch.

    Fresh memory holds NaN.  If no NaN reaches a result, the kernel discards what it read, and the failure is a warning.
    Integers have no NaN: the failure is a warning unless a result is wrong or an address stray.
    """

    name = "uninitialised-read"
    promise = "No kernel loads a cell that nothing has stored since it was allocated, and torch does not use one."
    traits = Traits(rank=190, flaw=FlawKind.UNINITIALISED, causality=Causality.KERNEL, scope=PromiseScope.LAUNCH)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each line that reads."""
        run = evidence.run
        is_used = any(result.nonfinite for result in run.results) or bool(run.nans)
        is_used |= not run.results and not run.is_undefined
        is_used &= isinstance(run.ending, Completed)

        is_harmful = isinstance(run.ending, Completed) and (
            any(not result.is_right for result in run.results) or any(isinstance(event, Stray) for event in run.memory)
        )

        def fail(group: Sequence[UninitialisedRead]) -> Fail:
            first = group[0]
            has_integers = any(event.is_integer for event in group)
            is_error = is_used or (has_integers and is_harmful)
            unused = UNCOMPARED if run.is_undefined else INTEGERS if has_integers else DISCARDED
            return Fail(
                signature=self.signature(
                    run,
                    kernel=first.site.kernel,
                    place=place_of(first.site),
                    severity=Severity.ERROR if is_error else Severity.WARNING,
                ),
                message=(
                    f"{cells(first.site.argument, first.first_cells, first.cells)} {was_or_were(first.cells)} read by "
                    f"program {first.program} before anything was stored there{at_line(group)}"
                ),
                meaning=USED if is_error else unused,
                source=first.site.source,
                launch_index=first.site.launch,
                argument=first.site.argument,
                pictures=shading(
                    first.site.argument, "read before anything was stored", first.cell_map, first.first_cells
                ),
            )

        reads = judge_lines(
            self.name, run, (event for event in run.memory if isinstance(event, UninitialisedRead)), fail
        )
        uses = tuple(self._fails_of_torch(run))
        return (*(verdict for verdict in reads if not uses or isinstance(verdict, Fail)), *uses)

    def _fails_of_torch(self, run: Run) -> Iterator[Fail]:
        """Yield a failure for each line that allocates, with the first use."""
        first: dict[tuple[str, str], UnwrittenUse] = {}
        for event in run.memory:
            if isinstance(event, UnwrittenUse):
                first.setdefault((event.site.kernel, place_of(event.site)), event)
        for (kernel, place), use in first.items():
            severity = Severity.WARNING if use.is_handed_over else Severity.ERROR
            yield Fail(
                signature=self.signature(run, kernel=kernel, place=place, severity=severity),
                message=_message_of_torch(use),
                meaning=_meaning_of_torch(use),
                source=use.site.source,
                launch_index=use.site.launch if kernel else None,
                argument=use.site.argument,
            )


def _meaning_of_torch(use: UnwrittenUse) -> str:
    used = HANDED_OVER if use.is_handed_over else USED_BY_TORCH
    return f"{OVERWRITTEN} {used}" if use.overwritten_at else used


def _message_of_torch(use: UnwrittenUse) -> str:
    verb = "hands the host" if use.is_handed_over else "uses"
    used_at = f" ({use.used_at})" if use.used_at else ""
    allocated = f", allocated at {use.site.source}" if use.site.source else ""
    if use.overwritten_at:
        lost = f"that the replay of another CUDA graph has overwritten ({use.overwritten_at})"
        return f"{use.operator}{used_at} {verb} {_elements(use)} {lost}{allocated}"
    return f"{use.operator}{used_at} {verb} {_elements(use)} that nothing has written{allocated}; {_last_store(use)}"


def _elements(use: UnwrittenUse) -> str:
    """Return `12 of 16 elements, from [1, 0] on,`; the index is that of the first."""
    total = prod(use.shape)
    if use.cells == total:
        return "1 element" if total == 1 else f"{total} elements"
    return f"{use.cells} of {total} elements, from [{', '.join(map(str, use.first_cell))}] on,"


def _last_store(use: UnwrittenUse) -> str:
    if not use.site.kernel:
        return "no kernel stored there"
    where = "to a copy of it" if use.is_stored_to_copy else "there"
    return f"{use.site.kernel} stored {where} last, through {use.site.argument}"


ORACLES = (NoUninitialisedReads(),)
