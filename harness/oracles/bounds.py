"""The promise that every access lands in the tensor that the kernel was given."""

from collections.abc import Sequence

from harness.model.case import Scale
from harness.model.flaw_kind import FlawKind
from harness.model.picture import Span
from harness.model.run import Access, AddressSpace, Run, Stray, Trampled
from harness.model.verdict import Abstain, Fail, Severity, Signature, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import unbounded
from harness.oracles.memory_events import at_line, judge_lines, place_of
from harness.oracles.traits import Causality, PromiseScope, Traits

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
"""The place of a stray access whose offset overflowed: one such offset shows at every line that uses it."""
NARROW = "offset of 32 bits"
"""The idiom of an overflow: kernels multiply indices and strides in the type of the launch's integers."""
WRAPPED = "; the offset has overflowed 32 bits"


class InBounds(SingleRunOracle):
    """Fails on accesses outside the tensor.

    A load from a gap between rows is a warning: the memory exists, and many kernels mask later what they read.
    """

    name = "bounds"
    promise = "Every load, store and atomic lands in a cell of the tensor that the kernel was given."
    traits = Traits(
        rank=130,
        flaw=FlawKind.OUT_OF_BOUNDS,
        causality=Causality.KERNEL,
        scope=PromiseScope.LAUNCH,
        judges_oversized=True,
        ends_launches=True,
        has_harmful_warnings=True,
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each line, with the worst of its accesses."""
        run = evidence.run

        def fail(group: Sequence[Stray]) -> Fail:
            worst = min(group, key=lambda stray: (not stray.wrapped, is_gap_load(stray)))
            is_overflow = worst.wrapped and run.case.scale is Scale.OVERSIZED
            return Fail(
                signature=self.signature(
                    run,
                    kernel=worst.site.kernel,
                    place=OVERFLOW if is_overflow else place_of(worst.site),
                    severity=Severity.WARNING if is_gap_load(worst) else Severity.ERROR,
                ),
                message=f"{sentence(worst)}{at_line(group)}{WRAPPED * is_overflow}",
                meaning=meaning(worst),
                source=worst.site.source,
                launch_index=worst.site.launch,
                argument=worst.site.argument,
                pictures=_pictures(worst),
                idiom=NARROW if is_overflow else "",
            )

        if trampled := [event for event in run.memory if isinstance(event, Trampled)]:
            return tuple(_fail_trampled(run, event) for event in trampled)
        strays = [event for event in run.memory if isinstance(event, Stray)]
        if cut := sorted({launch.kernel for launch in run.launches if launch.cut} if not strays else ()):
            reason = f"of an oversized case only the beginning of long loops was run, in {', '.join(cut)}"
            return (Abstain(oracle=self.name, reason=reason),)
        if steered := {launch.kernel: launch.steered_by for launch in run.launches if launch.steered_by and not strays}:
            kernels = ", ".join(f"{kernel} ({', '.join(names)})" for kernel, names in sorted(steered.items()))
            reason = f"an oversized case computes few values, and on others depends what is accessed, in {kernels}"
            return (Abstain(oracle=self.name, reason=reason),)
        verdicts = judge_lines(self.name, run, strays, fail, unbounded)
        # After an overflow several lines share one signature; the first of them stays.
        return tuple({_identity(verdict): verdict for verdict in reversed(verdicts)}.values())[::-1]


ORACLES = (InBounds(),)


def _fail_trampled(run: Run, event: Trampled) -> Fail:
    site = event.site
    did = f"{site.kernel} stores" if site.kernel else "something stored"
    cells = "1 element" if event.cells == 1 else f"{event.cells} elements"
    return Fail(
        signature=Signature(
            oracle=InBounds.name,
            severity=Severity.ERROR,
            op=run.case.op,
            kernel=site.kernel,
            place=f"{event.region} of {site.argument}",
        ),
        message=f"{did} {cells} {event.region} of {site.argument}, the first at element {event.element}",
        meaning=STORE,
        source=site.source,
        launch_index=site.launch,
    )


def _pictures(stray: Stray) -> tuple[Span, ...]:
    if stray.elements is None:
        return ()
    return (Span(tensor=stray.site.argument, caption=f"{stray.access}, {stray.region}", elements=stray.elements),)


def _identity(verdict: Verdict) -> object:
    return verdict.signature if isinstance(verdict, Fail) else verdict


def is_gap_load(stray: Stray) -> bool:
    return stray.access is Access.LOAD and stray.region is AddressSpace.IN_GAP


def sentence(stray: Stray) -> str:
    """Return for example `program 3 stores 31 lanes of dx outside the storage, the first at element 4096`."""
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
    """Return the consequences of the access."""
    if is_gap_load(stray):
        return GAP_LOAD
    match stray.access:
        case Access.LOAD:
            return LOAD
        case Access.STORE | Access.ATOMIC:
            return STORE
