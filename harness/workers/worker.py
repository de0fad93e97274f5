"""One child process that takes case after case and may die doing it."""

import signal
from collections.abc import Callable
from dataclasses import replace
from time import monotonic, perf_counter

from harness import wire
from harness.cuda import coredump
from harness.cuda.cuda_errors import with_assertion
from harness.cuda.emulation import gpu_of, hardware
from harness.cuda.sanitizers.instrumentation import with_records
from harness.errors import WorkerError
from harness.model.case import Case
from harness.model.paired_run import PairedRun, PairedRunRequest, RunRequest, case_of
from harness.model.run import Crashed, Ending, Run
from harness.model.triton_sanitizer_report import Instrumented
from harness.workers.channel import Channel, Exited, NoAnswer, Orphaned
from harness.workers.folder import PoolFolder
from harness.workers.protocol import COST, ChildError, Frame, FrameKind
from harness.workers.spec import WorkerSpec
from harness.workers.supervision import hangs, memory_limit

GROWTH_ALLOWED = 4
"""A worker that holds a quarter of its limit between cases is replaced, so that no later case pays for it."""


NO_ANSWER = "the process told of no launch"

Answer = Callable[[], Run]
"""Reads what came back."""


class WorkerGone(WorkerError):
    """The child was gone before it took the case, or its fork server died: no case is known to be at fault."""


class Worker:
    """A child process that runs cases; whatever a case does to it comes back as a run."""

    def __init__(  # noqa: PLR0913 - what a server knows of it
        self, channel: Channel, spec: WorkerSpec, folder: PoolFolder, *, engine: str, number: int, unproven: str = ""
    ) -> None:
        """`unproven` says why a sanitizer of Triton's may not watch in it."""
        self.spec = spec
        self._unproven = unproven
        self._channel = channel
        self._slot = folder.slot(number)
        self._engine = engine
        gpu = gpu_of(spec.environment)
        self._hardware = hardware(spec.device, gpu) if gpu else None
        self._fit = True
        self._sent: RunRequest | None = None
        """What it has beside the case that it runs, and begins as soon as it is done with that."""
        self._ended_s = 0.0

    @property
    def pid(self) -> int | None:
        """The child's process id."""
        return self._channel.pid

    @property
    def is_sound(self) -> bool:
        """Whether nothing odd has happened in it, as far as its answers tell."""
        return self._fit

    def fit(self) -> bool:
        """Whether it may take another case: nothing odd has happened in it, and it is alive."""
        return self._fit and not self._channel.ended()

    def ask(self, wanted: RunRequest, *, time_limit_s: float, following: RunRequest | None = None) -> Answer:
        """Run one case; a companion where one beside another is wanted.

        A crash, a hang or a lack of memory is the run's ending.  The worker may have its next case before the answer
        is read; and it has `following`, if given, before it is done with this one: as long as the worker is sound,
        that one is to be asked next, and may have killed it by then.

        Raises:
            WorkerGone: the child was gone before it took the case.
            WorkerError: the engine itself failed, or the protocol was broken.
            SuiteError: no suite declares the case's op.
        """
        fit, self._fit = self._fit, False
        case = case_of(wanted)
        order = wire.order_to_json(case)
        self._channel.forget_log()
        with self._slot.holding(wire.with_device(order, case.device)):
            was_sent, self._sent = self._sent is wanted, None
            started, begun_s = perf_counter(), self._ended_s if was_sent else monotonic()
            if not fit or not (was_sent or self._send(wanted, order if wanted is case else wire.order_to_json(wanted))):
                raise WorkerGone("the worker was gone before it took the case")
            if following is not None and self._send(following, wire.order_to_json(following)):
                self._sent = following
            return self._answered(case, time_limit_s, started, begun_s)

    def _answered(self, case: Case, time_limit_s: float, started: float, begun_s: float) -> Answer:
        match self._channel.wait(time_limit_s):
            case Frame(kind=FrameKind.RUN, payload=payload):
                return self._answer(payload, Run, case, started)
            case Frame(kind=FrameKind.COMPANION, payload=payload):
                return self._answer(payload, PairedRun, case, started)
            case Frame(kind=FrameKind.FAULT, payload=payload):
                raise wire.from_json(payload, ChildError).error()
            case Frame(kind=kind):
                raise WorkerError(f"a worker broke the protocol: it answered a case with {kind.name}")
            case Exited(unread=True) if not self._took_it(begun_s):
                raise WorkerGone("the worker was gone before it took the case")
            case Exited(code=code):
                crashed = self._failed(case, self._crash(code, begun_s))
                return lambda: crashed
            case Orphaned():
                raise WorkerGone(f"the fork server died while {case} ran")
            case NoAnswer():
                ending = hangs.timed_out(self._channel, self.spec, self._engine, time_limit_s, begun_s)
                self._channel.kill()
                silent = self._failed(case, ending)
                return lambda: silent

    def _took_it(self, begun_s: float) -> bool:
        """Whether a child that left something unread had begun its case: what it left was the one after that."""
        return self._sent is not None and bool(self._channel.recorder.since(begun_s).events)

    def kill(self) -> None:
        """Kill the child; whoever waits on it sees it end."""
        self._channel.kill()

    def close(self) -> None:
        """Kill the child and wait until it is gone."""
        self._fit = False
        self._channel.close()
        self._slot.close()
        if self.pid is not None and (places := coredump.places(self.spec.environment, self.pid)):
            places.remove()

    def _send(self, wanted: RunRequest, order: str) -> bool:
        return self._channel.send(
            FrameKind.BESIDE if isinstance(wanted, PairedRunRequest) else FrameKind.CASE, order.encode()
        )

    def _answer(self, payload: bytes, kind: type[Run], case: Case, started: float) -> Answer:
        engine_s, grown, is_lost, self._ended_s = COST.unpack_from(payload)
        self._fit = not is_lost and grown * GROWTH_ALLOWED < self.spec.memory_limit_bytes
        way_s = max(0.0, perf_counter() - started - engine_s)
        log_tail = self._channel.log_tail if is_lost else ""

        def read() -> Run:
            begun = perf_counter()
            run = wire.answer_from_json(payload[COST.size :], kind, case)
            seconds = {**run.seconds, "transport": way_s + perf_counter() - begun}
            ending = with_assertion(run.ending, log_tail)
            told = replace(run, ending=ending, hardware=self._hardware, seconds=seconds)
            return told if run.instrumented is None else self._watched(told, log_tail)

        return read

    def _watched(self, run: Run, log_tail: str) -> Run:
        """With what Triton's sanitizer printed."""
        told, asked = run.instrumented, self.spec.instrumenting
        assert told is not None
        assert asked is not None
        if self._unproven:
            run = replace(run, instrumented=replace(told, unproven=self._unproven))
        return with_records(run, log_tail, asked.suppressions)

    def _crash(self, code: int, begun_s: float) -> Ending:
        flight = self._channel.recorder.since(begun_s)
        crash = Crashed(
            signal=_signal_name(-code) if code < 0 else None,
            status=code if code >= 0 else None,
            log_tail=self._channel.log_tail,
            launch=flight.kernel,
            doing=flight.doing,
            events=flight.lines(),
        )
        return memory_limit.reclassified(crash, self.spec.memory_limit_bytes)

    def _failed(self, case: Case, ending: Ending) -> Run:
        asked = self.spec.instrumenting
        checked = Instrumented(mode=asked.mode, version=asked.version, unproven=NO_ANSWER) if asked else None
        return Run(case=case, engine=self._engine, ending=ending, hardware=self._hardware, instrumented=checked)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
