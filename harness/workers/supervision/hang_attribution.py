"""Evidence about a worker that does not answer, and who hangs by that evidence: host, compiler or device."""

from dataclasses import dataclass, replace

from harness.execution.flight_recorder import Activity
from harness.model.engine_traits import VIRTUAL, traits_of_engine
from harness.model.run import HungParty, TimedOut
from harness.workers.supervision import processes, stacks
from harness.workers.supervision.processes import RUNNING, Thread
from harness.workers.supervision.recorder_reader import Flight
from harness.workers.supervision.stacks import Stack, StackFrame

SAMPLES = 3
BETWEEN_S = 0.1
BUSY_TICKS = 5
"""A thread that uses this many CPU ticks over all samples is running; on a busy machine it gets no more."""
BUSY_PERCENT = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class HangEvidence:
    """Observations of the worker before it is killed."""

    flight: Flight
    engine: str = VIRTUAL.name
    compilers: tuple[str, ...] = ()
    """Names of the compilers that it started and that still run."""
    utilisation: tuple[int, ...] = ()
    """The utilisation of its GPU in per cent, one for each sample; empty if no GPU is known or NVML reports nothing."""
    threads: tuple[tuple[Thread, ...], ...] = ()
    """Its threads, one tuple for each sample."""
    stacks: tuple[Stack, ...] = ()
    """The stack that does the case's work, from the library's innermost frame outwards, one for each sample."""
    now_s: float = 0.0
    """On the monotonic clock."""

    @property
    def hung_party(self) -> HungParty:
        unfinished = self.flight.unfinished
        if self.compilers or (unfinished is not None and unfinished.kind is Activity.COMPILE):
            return HungParty.COMPILER
        if traits_of_engine(self.engine).is_virtual and unfinished is not None and unfinished.kind is Activity.LAUNCH:
            return HungParty.DEVICE
        may_be_on_gpu = not self.flight.is_waited_for
        # A host that waits for the GPU makes any work there suspect.  Without that, only a GPU that is always busy is:
        # other processes may use it in turn.
        is_synchronising = unfinished is not None and unfinished.kind is Activity.SYNCHRONISE
        least_percent = 1 if is_synchronising else BUSY_PERCENT
        if may_be_on_gpu and len(self.utilisation) == SAMPLES and min(self.utilisation) >= least_percent:
            return HungParty.DEVICE
        if may_be_on_gpu and (
            any(self.utilisation) or (not self.utilisation and not traits_of_engine(self.engine).is_virtual)
        ):
            return HungParty.UNKNOWN  # the GPU works now and then, or its utilisation is not known
        return HungParty.HOST if self.threads and self.threads[-1] else HungParty.UNKNOWN

    @property
    def running(self) -> Thread | None:
        """A thread that keeps running, if there is one."""
        samples = [{thread.id: thread for thread in sample} for sample in self.threads]
        for id_, last in (samples[-1] if samples else {}).items():
            seen = [sample[id_] for sample in samples if id_ in sample]
            is_often_running = sum(thread.state == RUNNING for thread in seen) > len(seen) // 2
            if is_often_running or last.ticks - seen[0].ticks >= BUSY_TICKS:
                return last
        return None

    @property
    def waiting(self) -> Thread | None:
        """The thread that wrote the last note; the main thread if that one is gone or wrote none."""
        threads = self.threads[-1] if self.threads else ()
        last = self.flight.last
        noting = next((thread for thread in threads if last is not None and thread.id == last.thread), None)
        return noting or (threads[0] if threads else None)

    @property
    def frame(self) -> StackFrame | None:
        """The innermost of the library's functions that is the same in all samples."""
        return stacks.common(self.stacks)

    def sentences(self) -> tuple[str, ...]:
        """The evidence in words."""
        texts: list[str] = []
        if (last := self.flight.last) is not None:
            texts.append(f"last note, {self.now_s - last.time_s:.1f} s before: {self.flight.last_in_words}")
        texts += [f"{name} runs" for name in dict.fromkeys(self.compilers)]
        if self.utilisation:
            texts.append(f"GPU utilisation {', '.join(f'{percent} %' for percent in self.utilisation)}")
        if (thread := self.running) is not None:
            used_s = (thread.ticks - self._first_ticks(thread)) * processes.tick_s()
            texts.append(f"thread {thread.id} runs, {used_s:.2f} s of CPU in {(SAMPLES - 1) * BETWEEN_S:.1f} s")
        elif (thread := self.waiting) is not None:
            held_by = f" ({thread.held_by})" if thread.held_by else ""
            texts.append(f"thread {thread.id} is in state {thread.state}{held_by}")
        if (frame := self.frame) is not None:
            texts.append(f"Python is in {frame.function} ({frame.source})")
        return tuple(texts)

    def ending(self, limit_s: float, log_tail: str = "") -> TimedOut:
        """The ending of the case that follows from the evidence."""
        ending = TimedOut(
            limit_s=limit_s,
            log_tail=log_tail,
            launch=self.flight.kernel or self.flight.launched,
            waiting=self.hung_party,
            swallowed=self.flight.swallowed,
            phase=self.flight.phase,
            evidence=self.sentences(),
            events=self.flight.lines(),
        )
        if ending.waiting is not HungParty.HOST:
            return ending
        waiting, frame = self.waiting, self.frame
        is_running = self.running is not None
        return replace(
            ending,
            held_by="" if is_running or waiting is None else waiting.held_by or f"state {waiting.state}",
            function=frame.function if frame else "",
            source=frame.source if frame else None,
        )

    def _first_ticks(self, thread: Thread) -> int:
        return next((first.ticks for first in self.threads[0] if first.id == thread.id), thread.ticks)
