"""Inspection of a worker that does not answer, before it is killed.

The flight recorder has what it was doing last.  `/proc` shows what its threads do, NVML whether its GPU works, and
faulthandler where its Python code is.  If the GPU works and never ends, a core dump of the GPU names the line.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from harness.engines.cuda import coredump
from harness.engines.cuda.gpus.health import utilisation as utilisation_of
from harness.execution.flight_recorder import Activity
from harness.model.run import HungParty, Run, TimedOut
from harness.workers.spec import WorkerSpec
from harness.workers.supervision import processes, stacks
from harness.workers.supervision.channel import Channel
from harness.workers.supervision.hang_attribution import BETWEEN_S, SAMPLES, HangEvidence
from harness.workers.supervision.recorder_reader import Flight
from harness.workers.supervision.stacks import Stack
from harness.workers.supervision.time_limits import Patience

VISIBLE = "CUDA_VISIBLE_DEVICES"
UUID = "GPU-"
NO_DEBUGGER = f"{coredump.DEBUGGER} is not installed: the line is not known"


def timed_out(channel: Channel, spec: WorkerSpec, engine: str, limit_s: float, begun_s: float) -> TimedOut:
    """The ending of a case that gave no answer.  The worker is alive before, but may be gone afterwards."""
    evidence, log_tail = _inspect(channel, spec, engine, begun_s)
    ending = evidence.ending(limit_s, log_tail)
    unfinished = evidence.flight.unfinished
    may_be_device = (
        ending.waiting is HungParty.UNKNOWN
        and unfinished is not None
        and unfinished.kind in {Activity.LAUNCH, Activity.SYNCHRONISE}
    )
    if ending.waiting is HungParty.DEVICE or may_be_device:
        return _with_core_dump(ending, evidence.flight, channel, spec)
    return ending


def with_kernel_line(run: Run, patience: Patience, repeat: Callable[[], Run]) -> Run:
    """The run; a hang of the device gets its line from `repeat`, which runs the case with core dumps enabled.

    Other processes do not enable them: there, a kernel that faults would abort the process, and hide which fault it
    was.
    """
    ending = run.ending
    if not isinstance(ending, TimedOut) or ending.source is not None:
        return run
    is_in_doubt = ending.waiting is HungParty.UNKNOWN and ending.launch is not None
    if not is_in_doubt and (ending.waiting, patience) != (HungParty.DEVICE, Patience.LONG):
        return run
    if coredump.debugger() is None:
        return replace(run, ending=_with_evidence(ending, NO_DEBUGGER))
    repeated = repeat().ending
    if not isinstance(repeated, TimedOut) or repeated.waiting is not HungParty.DEVICE:
        return run
    return replace(run, ending=replace(repeated, limit_s=ending.limit_s))


def gpu_of(spec: WorkerSpec) -> str | None:
    """The uuid of the one whole GPU that the worker sees."""
    visible = dict(spec.environment).get(VISIBLE, "")
    return visible if visible.startswith(UUID) and "," not in visible else None


def _inspect(channel: Channel, spec: WorkerSpec, engine: str, begun_s: float) -> tuple[HangEvidence, str]:
    """The evidence, and the log with the first stack in it."""
    pid = channel.pid
    uuid = gpu_of(spec)
    utilisation = list[int]()
    threads = list[tuple[processes.Thread, ...]]()
    for sample in range(SAMPLES if pid is not None else 0):
        time.sleep(BETWEEN_S * bool(sample))
        threads.append(processes.threads(pid or 0))
        if uuid is not None and (percent := utilisation_of(uuid)) is not None:
            utilisation.append(percent)
    evidence = HangEvidence(
        flight=channel.recorder.since(begun_s),
        engine=engine,
        compilers=processes.compilers(pid) if pid is not None else (),
        utilisation=tuple(utilisation),
        threads=tuple(threads),
        now_s=time.monotonic(),
    )
    # Only a thread that runs has different stacks.
    log_tail, samples = _sample_stacks(channel, SAMPLES if evidence.running is not None else 1)
    return replace(evidence, stacks=samples), log_tail


def _sample_stacks(channel: Channel, samples: int) -> tuple[str, tuple[Stack, ...]]:
    """The log with the first stack, and the stack at fault in each sample."""
    channel.wait_for_stack()
    log_tail = channel.log_tail
    at_fault = [stacks.at_fault(stacks.parse(log_tail))]
    for _ in range(samples - 1):
        channel.forget_log()
        channel.wait_for_stack()
        at_fault.append(stacks.at_fault(stacks.parse(channel.log_tail)))
    return log_tail, tuple(at_fault)


def _with_core_dump(ending: TimedOut, flight: Flight, channel: Channel, spec: WorkerSpec) -> TimedOut:
    """The ending with the line at which the device spins, if core dumps are enabled and cuda-gdb is installed.

    Ends the process.
    """
    files = coredump.files_of(spec.environment, channel.pid) if channel.pid is not None else None
    if files is None:
        return ending
    program = coredump.debugger()
    if program is None:
        return _with_evidence(ending, NO_DEBUGGER)
    if obstacle := coredump.request_dump(files):
        return _with_evidence(ending, obstacle)
    channel.wait(coredump.DUMP_LIMIT_S)  # the driver aborts the process when the dump is written
    match coredump.read_dump(files, program):
        case str(obstacle):
            return _with_evidence(ending, obstacle)
        case coredump.GpuLocation() as location:
            # The debugger's name of a kernel may be longer, by Triton's mangling of what it is specialised for.
            launched = [kernel for kernel in reversed(flight.launches) if location.kernel.startswith(kernel)]
            kernel = launched[0] if launched else ending.launch or location.kernel
            place = f" ({location.source})" if location.source else ""
            located = replace(ending, waiting=HungParty.DEVICE, launch=kernel, source=location.source)
            return _with_evidence(located, f"a core dump of the GPU shows {location.kernel}{place}")


def _with_evidence(ending: TimedOut, sentence: str) -> TimedOut:
    return replace(ending, evidence=(*ending.evidence, sentence))
