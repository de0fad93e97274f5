"""The promises that kernels which need scratch memory find an allocator, wherever they are launched."""

from harness.model.flaw_kind import FlawKind
from harness.model.run import Raised, Run, ScratchFault, ScratchFlaw, TimedOut
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import NO_LAUNCH, ResponsibleOracle, responsible_oracle, unfinished
from harness.oracles.memory_events import place_of
from harness.oracles.traits import PromiseScope, Proof, Traits


class ScratchMemory(SingleRunOracle):
    """Fails if a kernel needs scratch memory and no allocator is set, anywhere as far as is known.

    Triton asks its allocator at launch, and the default allocator raises.
    """

    name = "scratch-memory"
    promise = "An allocator is set if a kernel is launched that needs scratch memory."
    traits = Traits(
        rank=30, flaw=FlawKind.PROMISE, scope=PromiseScope.LAUNCH, judges_oversized=True, proof=Proof.GPU_LIMIT
    )
    meaning = (
        "The library launches a kernel with device-made tensor descriptors without `triton.set_allocator` in "
        "that thread; older GPUs need no scratch memory for it, and a thread such as autograd's does not "
        "inherit the setting."
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail on launches without an allocator, and on the default allocator's exception."""
        run = evidence.run
        faults = (event for event in run.memory if isinstance(event, ScratchFault))
        missing = [event for event in faults if event.what is ScratchFlaw.MISSING]
        fails = {place_of(event.site): self._fail(run, event) for event in missing if self._judges(event)}
        if fails:
            return tuple(fails.values())
        if not missing and self._judges_exceptions() and (raised := _raised(run)):
            return (self._of_exception(run, raised),)
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if not run.launches:
            return (Abstain(oracle=self.name, reason=NO_LAUNCH),)
        return (Pass(oracle=self.name),)

    def _judges(self, event: ScratchFault) -> bool:
        return not event.other

    def _judges_exceptions(self) -> bool:
        """Return True if this oracle judges the exception of an engine that does not see the allocator."""
        return True

    def _fail(self, run: Run, event: ScratchFault) -> Fail:
        raised = _raised(run)
        kernel = event.site.kernel
        is_raised = raised is not None and raised.launch in {kernel, None}
        place = str(raised.source or raised.phase) if raised and is_raised else place_of(event.site)
        return Fail(
            signature=self.signature(run, kernel=kernel, place=place),
            message=f"{_need(run, event)}, {self._seen(run, event)}{'' if is_raised else _swallowed(run)} ({place})",
            meaning=self.meaning,
            source=(raised.source if raised and is_raised else None) or event.site.source,
            launch_index=event.site.launch,
        )

    def _seen(self, run: Run, event: ScratchFault) -> str:
        del event
        return f"and{_phase(run)} no allocator is set"

    def _of_exception(self, run: Run, raised: Raised) -> Fail:
        kernel = raised.launch or "a kernel"
        place = str(raised.source) if raised.source else raised.phase
        return Fail(
            signature=self.signature(run, kernel=raised.launch or "", place=place),
            message=(
                f"{kernel} needs scratch memory on {run.case.device.arch_name}, and in {raised.phase} no allocator is "
                f"set ({place})"
            ),
            meaning=self.meaning,
            source=raised.source,
        )


class ScratchContext(ScratchMemory):
    """Fails if an allocator is set in one context of the process, and missing where a kernel is launched."""

    name = "scratch-context"
    promise = "An allocator that is set in one thread is set in every thread that launches a kernel that needs it."
    traits = Traits(
        rank=40,
        flaw=FlawKind.PROMISE,
        scope=PromiseScope.LAUNCH,
        proof=Proof.GPU_LIMIT,
        more_than_launch="the host code decides in which thread it launches",
    )
    meaning = (
        "`triton.set_allocator` sets a context variable. A fresh thread, autograd's thread for backward passes, and a "
        "pool's workers begin with an empty context: the setting of the thread that imported the library is not "
        "there. The call that works in the main thread raises in others."
    )

    def _judges(self, event: ScratchFault) -> bool:
        return bool(event.other)

    def _judges_exceptions(self) -> bool:
        return False

    def _seen(self, run: Run, event: ScratchFault) -> str:
        where = "" if run.case.context.is_main else f" {run.case.context.where}"
        return f"and the allocator that is set {event.other} is missing{where or _phase(run)}"


ORACLES = (ScratchMemory(), ScratchContext())


def _raised(run: Run) -> Raised | None:
    """Return the default allocator's exception, if it ended the case."""
    ending = run.ending
    is_it = isinstance(ending, Raised) and responsible_oracle(ending) is ResponsibleOracle.SCRATCH_MEMORY
    return ending if isinstance(ending, Raised) and is_it else None


def _need(run: Run, event: ScratchFault) -> str:
    """Return for example `f_kernel needs 512 bytes of scratch memory on sm_100 for the descriptor at f.py:9`."""
    descriptor = f" for the descriptor at {event.site.source}" if event.site.source else ""
    need = f"{event.site.kernel} needs {event.needed_bytes:,} bytes of scratch memory"
    return f"{need} on {run.case.device.arch_name}{descriptor}"


def _phase(run: Run) -> str:
    match run.ending:
        case Raised(phase=phase):
            return f" in {phase}"
        case TimedOut(phase=phase) if phase:
            return f" in {phase}"
        case _:
            return ""


def _swallowed(run: Run) -> str:
    return "; the exception was swallowed" if not isinstance(run.ending, Raised) else ""
