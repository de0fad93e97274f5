"""Who hangs: what can be seen of a worker that does not answer, before it is killed, and the verdict that follows.

The flight recorder says what it was doing last, Linux what its threads do, NVML whether its GPU works, and faulthandler
where its Python code stands.  Where the GPU works and never ends, a core dump of the GPU says at which line.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.cuda import coredump
from harness.cuda.gpus.health import utilisation as utilisation_of
from harness.model.run import HungParty, Run, TimedOut
from harness.ops.flight_recorder import Activity
from harness.workers.channel import Channel
from harness.workers.spec import WorkerSpec
from harness.workers.supervision import processes, stacks
from harness.workers.supervision.processes import RUNNING, Thread
from harness.workers.supervision.recorder_reader import Flight
from harness.workers.supervision.stacks import Stack, StackFrame
from harness.workers.supervision.time_limits import Patience

SAMPLES = 3
BETWEEN_S = 0.1
BUSY_TICKS = 5
"""A thread that used so many ticks of the CPU, while it was looked at, runs; on a busy machine it does not get more."""
BUSY_PERCENT = 99
VISIBLE = "CUDA_VISIBLE_DEVICES"
UUID = "GPU-"
VIRTUAL = "virtual"
NO_DEBUGGER = f"{coredump.DEBUGGER} is not installed: the line is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class HangEvidence:
    """All that was seen of a worker that does not answer."""

    flight: Flight
    engine: str = VIRTUAL
    compilers: tuple[str, ...] = ()
    """Names of compilers that it started and that run."""
    utilisation: tuple[int, ...] = ()
    """Of its GPU, in per cent, one for each sample; empty where no GPU is known or NVML says nothing."""
    threads: tuple[tuple[Thread, ...], ...] = ()
    """Its threads, one tuple for each sample."""
    stacks: tuple[Stack, ...] = ()
    """The stack that does the case's work, from the library's innermost frame outwards, one for each sample."""
    now_s: float = 0.0
    """On the monotonic clock."""

    @property
    def waiting(self) -> HungParty:
        """Who does not come to an end."""
        at = self.flight.unfinished
        if self.compilers or (at is not None and at.kind is Activity.COMPILE):
            return HungParty.COMPILER
        if self.engine == VIRTUAL and at is not None and at.kind is Activity.LAUNCH:
            return HungParty.DEVICE
        on_gpu = not self.flight.is_waited_for
        least = (
            BUSY_PERCENT if at is None or at.kind is not Activity.SYNCHRONISE else 1
        )  # others may use the GPU in turn
        if on_gpu and len(self.utilisation) == SAMPLES and min(self.utilisation) >= least:
            return HungParty.DEVICE
        if (on_gpu and any(self.utilisation)) or (on_gpu and not self.utilisation and self.engine != VIRTUAL):
            return HungParty.UNKNOWN  # the GPU works now and then, or nobody knows whether it does
        return HungParty.HOST if self.threads and self.threads[-1] else HungParty.UNKNOWN

    @property
    def running(self) -> Thread | None:
        """A thread that runs on and on, if one does."""
        samples = [{thread.id: thread for thread in sample} for sample in self.threads]
        for id_, last in (samples[-1] if samples else {}).items():
            seen = [sample[id_] for sample in samples if id_ in sample]
            often = sum(thread.state == RUNNING for thread in seen) > len(seen) // 2
            if often or last.ticks - seen[0].ticks >= BUSY_TICKS:
                return last
        return None

    @property
    def waiter(self) -> Thread | None:
        """The thread that noted last what it was doing; the main one where that is gone or noted nothing."""
        threads = self.threads[-1] if self.threads else ()
        last = self.flight.last
        mine = next((thread for thread in threads if last is not None and thread.id == last.thread), None)
        return mine or (threads[0] if threads else None)

    @property
    def frame(self) -> StackFrame | None:
        """The innermost of the library's functions that it does not leave."""
        return stacks.common(self.stacks)

    def sentences(self) -> tuple[str, ...]:
        """The evidence in words."""
        said: list[str] = []
        if (last := self.flight.last) is not None:
            said.append(f"noted last, {self.now_s - last.time_s:.1f} s before: {self.flight.last_words}")
        said += [f"{name} runs" for name in dict.fromkeys(self.compilers)]
        if self.utilisation:
            said.append(f"GPU utilisation {', '.join(f'{percent} %' for percent in self.utilisation)}")
        if (thread := self.running) is not None:
            used_s = (thread.ticks - _before(self, thread).ticks) * processes.tick_s()
            said.append(f"thread {thread.id} runs, {used_s:.2f} s of CPU in {(SAMPLES - 1) * BETWEEN_S:.1f} s")
        elif (thread := self.waiter) is not None:
            said.append(f"thread {thread.id} is in state {thread.state}{f' ({thread.held_by})' * bool(thread.held_by)}")
        if (frame := self.frame) is not None:
            said.append(f"Python stands in {frame.function} ({frame.source})")
        return tuple(said)


def timed_out(channel: Channel, spec: WorkerSpec, engine: str, limit_s: float, begun_s: float) -> TimedOut:
    """The ending of a case that gave no answer.  The worker is still alive, but may be gone when this returns."""
    look, log_tail = _look(channel, spec, engine, begun_s)
    ending = verdict(look, limit_s, log_tail)
    at = look.flight.unfinished
    doubtful = (
        ending.waiting is HungParty.UNKNOWN and at is not None and at.kind in {Activity.LAUNCH, Activity.SYNCHRONISE}
    )
    if ending.waiting is HungParty.DEVICE or doubtful:
        return _with_core_dump(ending, look.flight, channel, spec)
    return ending


def looked_at_again(run: Run, patience: Patience, again: Callable[[], Run]) -> Run:
    """A hang of the device, from `again` where that shows its line: the case in a process in which CUDA listens.

    No other process is told to: in one that is, a kernel that faults aborts it, and nobody says which fault it was.
    """
    ending = run.ending
    if not isinstance(ending, TimedOut) or ending.source is not None:
        return run
    in_doubt = ending.waiting is HungParty.UNKNOWN and ending.launch is not None
    if not in_doubt and (ending.waiting, patience) != (HungParty.DEVICE, Patience.LONG):
        return run
    if coredump.debugger() is None:
        return replace(run, ending=_also(ending, NO_DEBUGGER))
    seen = again().ending
    if not isinstance(seen, TimedOut) or seen.waiting is not HungParty.DEVICE:
        return run
    return replace(run, ending=replace(seen, limit_s=ending.limit_s))


def verdict(look: HangEvidence, limit_s: float, log_tail: str = "") -> TimedOut:
    """What follows from what was seen."""
    flight = look.flight
    ending = TimedOut(
        limit_s=limit_s,
        log_tail=log_tail,
        launch=flight.kernel or flight.launched,
        waiting=look.waiting,
        swallowed=flight.swallowed,
        evidence=look.sentences(),
        events=flight.lines(),
    )
    if ending.waiting is not HungParty.HOST:
        return ending
    waiter, frame = look.waiter, look.frame
    return replace(
        ending,
        held_by="" if look.running is not None or waiter is None else waiter.held_by or f"state {waiter.state}",
        function=frame.function if frame else "",
        source=frame.source if frame else None,
    )


def _look(channel: Channel, spec: WorkerSpec, engine: str, begun_s: float) -> tuple[HangEvidence, str]:
    """What is to be seen, and the log with the first stack in it."""
    pid = channel.pid
    uuid = gpu_of(spec)
    utilisation: list[int] = []
    threads: list[tuple[Thread, ...]] = []
    for sample in range(SAMPLES if pid is not None else 0):
        time.sleep(BETWEEN_S * bool(sample))
        threads.append(processes.threads(pid or 0))
        if uuid is not None and (percent := utilisation_of(uuid)) is not None:
            utilisation.append(percent)
    look = HangEvidence(
        flight=channel.recorder.since(begun_s),
        engine=engine,
        compilers=processes.compilers(pid) if pid is not None else (),
        utilisation=tuple(utilisation),
        threads=tuple(threads),
        now_s=time.monotonic(),
    )
    log_tail, standing = _stacks(channel, SAMPLES if look.running is not None else 1)
    return replace(look, stacks=standing), log_tail


def _stacks(channel: Channel, samples: int) -> tuple[str, tuple[Stack, ...]]:
    """The log with the first stack, and where the process stood at each sample."""
    channel.wait_for_stack()
    log_tail = channel.log_tail
    standing = [stacks.at_fault(stacks.parse(log_tail))]
    for _ in range(samples - 1):
        channel.forget_log()
        channel.wait_for_stack()
        standing.append(stacks.at_fault(stacks.parse(channel.log_tail)))
    return log_tail, tuple(standing)


def _with_core_dump(ending: TimedOut, flight: Flight, channel: Channel, spec: WorkerSpec) -> TimedOut:
    """The line at which the device spins, where CUDA was told to listen and cuda-gdb is here; ends the process."""
    places = coredump.places(spec.environment, channel.pid) if channel.pid is not None else None
    if places is None:
        return ending
    program = coredump.debugger()
    if program is None:
        return _also(ending, NO_DEBUGGER)
    if obstacle := coredump.trigger(places):
        return _also(ending, obstacle)
    channel.wait(coredump.DUMPING_S)  # the driver aborts the process when the dump is written
    match coredump.read(places, program):
        case str(obstacle):
            return _also(ending, obstacle)
        case coredump.GpuLocation() as spot:
            ours = [kernel for kernel in reversed(flight.launches) if spot.kernel.startswith(kernel)]
            kernel = ours[0] if ours else ending.launch or spot.kernel
            place = f" ({spot.source})" if spot.source else ""
            found = f"a core dump of the GPU shows {spot.kernel}{place}"
            return _also(replace(ending, waiting=HungParty.DEVICE, launch=kernel, source=spot.source), found)


def _also(ending: TimedOut, sentence: str) -> TimedOut:
    return replace(ending, evidence=(*ending.evidence, sentence))


def gpu_of(spec: WorkerSpec) -> str | None:
    """The one whole GPU that the worker sees, by its uuid."""
    visible = dict(spec.environment).get(VISIBLE, "")
    return visible if visible.startswith(UUID) and "," not in visible else None


def _before(look: HangEvidence, thread: Thread) -> Thread:
    return next((one for one in look.threads[0] if one.id == thread.id), thread)
