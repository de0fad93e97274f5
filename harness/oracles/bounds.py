"""Every access lands in the tensor that was passed."""

from collections.abc import Sequence

from harness.model.case import Scale
from harness.model.picture import Span
from harness.model.run import Access, AddressSpace, Run, Stray, Trampled
from harness.model.verdict import Abstain, Fail, Severity, Signature, Verdict
from harness.oracles.base import Alone, Evidence
from harness.oracles.memory_events import judge_lines, place_of, where

LOAD = (
    "The kernel reads memory that is not its own: on a GPU it gets a neighbour's values, or dies with an illegal "
    "memory access where the page is not mapped."
)
STORE = (
    "The kernel writes memory that is not its own: on a GPU it silently corrupts another tensor, or dies with an "
    "illegal memory access."
)
GAP_LOAD = (
    "The kernel reads what lies between the rows, as if the tensor were contiguous or a tile narrower than it is; the "
    "result is right only as long as nothing depends on those values."
)


OVERFLOW = "an offset beyond 2^31 elements"
"""Where a kernel strays in a giant case: one offset that overflows shows at every line that uses it."""


class Bounds(Alone):
    """A load from a gap between rows is a warning: the memory exists, and many kernels mask later what they read."""

    name = "bounds"
    promise = "Every load, store and atomic lands in a cell of the tensor that the kernel was given."

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """One failure for each line, with the worst of its accesses."""
        run = evidence.run

        def fail(group: Sequence[Stray]) -> Fail:
            worst = min(group, key=harmless)
            return Fail(
                signature=Signature(
                    oracle=self.name,
                    severity=Severity.WARNING if harmless(worst) else Severity.ERROR,
                    op=run.case.op,
                    kernel=worst.site.kernel,
                    place=OVERFLOW if run.case.scale is Scale.GIANT else place_of(worst.site),
                ),
                message=f"{sentence(worst)}{where(group)}",
                meaning=meaning(worst),
                source=worst.site.source,
                pictures=_pictures(worst),
            )

        if trampled := [event for event in run.memory if isinstance(event, Trampled)]:
            return tuple(_fail_trampled(run, event) for event in trampled)
        strays = [event for event in run.memory if isinstance(event, Stray)]
        if cut := sorted({launch.kernel for launch in run.launches if launch.cut} if not strays else ()):
            reason = f"of a giant case only the beginning of long loops was run, in {', '.join(cut)}"
            return (Abstain(oracle=self.name, reason=reason),)
        verdicts = judge_lines(self.name, run, strays, fail)
        return tuple({_identity(verdict): verdict for verdict in reversed(verdicts)}.values())[::-1]


def _fail_trampled(run: Run, event: Trampled) -> Fail:
    site = event.site
    did = f"{site.kernel} stores" if site.kernel else "something stored"
    cells = "1 element" if event.cells == 1 else f"{event.cells} elements"
    return Fail(
        signature=Signature(
            oracle=Bounds.name,
            severity=Severity.ERROR,
            op=run.case.op,
            kernel=site.kernel,
            place=f"{event.region} of {site.argument}",
        ),
        message=f"{did} {cells} {event.region} of {site.argument}, the first at element {event.element}",
        meaning=STORE,
        source=site.source,
    )


def _pictures(stray: Stray) -> tuple[Span, ...]:
    if stray.where is None:
        return ()
    return (Span(tensor=stray.site.argument, says=f"{stray.access}, {stray.region}", reach=stray.where),)


def _identity(verdict: Verdict) -> object:
    return verdict.signature if isinstance(verdict, Fail) else verdict


def harmless(stray: Stray) -> bool:
    """Whether the access is a load from a gap."""
    return stray.access is Access.LOAD and stray.region is AddressSpace.IN_GAP


def sentence(stray: Stray) -> str:
    """What was seen: `program 3 stores 31 lanes of dx outside the storage, the first at element 4096`."""
    match stray.access:
        case Access.LOAD:
            did = "loads"
        case Access.STORE:
            did = "stores"
        case Access.ATOMIC:
            did = "atomically updates"
    lanes = "1 lane" if stray.lanes == 1 else f"{stray.lanes} lanes"
    match stray.region:
        case AddressSpace.OUTSIDE_STORAGE | AddressSpace.OUTSIDE_VIEW | AddressSpace.IN_GAP:
            first = "at" if stray.lanes == 1 else "the first at"
            landed = f"{stray.region}, {first} element {stray.element}"
            return f"program {stray.program} {did} {lanes} of {stray.site.argument} {landed}"
        case AddressSpace.NULL | AddressSpace.UNKNOWN_POINTER:
            return f"program {stray.program} {did} {lanes} {stray.region}"


def meaning(stray: Stray) -> str:
    """What that leads to."""
    if harmless(stray):
        return GAP_LOAD
    match stray.access:
        case Access.LOAD:
            return LOAD
        case Access.STORE | Access.ATOMIC:
            return STORE
