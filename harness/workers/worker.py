"""One child process that takes case after case and may die doing it."""

import signal
from dataclasses import replace
from time import monotonic, perf_counter

from harness import wire
from harness.engines.cuda import coredump
from harness.engines.cuda.cuda_errors import with_assertion
from harness.engines.cuda.emulation import gpu_of, hardware
from harness.engines.cuda.sanitizers.instrumentation import with_records
from harness.errors import ReplayError, WorkerError
from harness.model.case import Case
from harness.model.paired_run import RunRequest, case_of
from harness.model.run import STARVED, Crashed, Ending, Run
from harness.model.triton_sanitizer_report import Instrumented
from harness.workers.folder import CaseFile
from harness.workers.interfaces import Answer, WorkerGone
from harness.workers.protocol import ANSWER_TYPES, COST, ChildError, Frame, FrameKind, kind_of
from harness.workers.spec import WorkerSpec
from harness.workers.supervision import hang_inspection, memory_limit
from harness.workers.supervision.channel import Channel, Exited, NoAnswer, Orphaned

GROWTH_ALLOWED = 4
"""A worker that holds a quarter of its memory limit between cases is replaced, so that no later case pays for it."""
NO_ANSWER = "the process reported no launch"


class Worker:
    """A child process that runs cases, as `harness.workers.interfaces.CaseWorker` describes."""

    takes_ahead = True

    def __init__(
        self, channel: Channel, spec: WorkerSpec, case_file: CaseFile, *, engine: str, unproven: str = ""
    ) -> None:
        """`unproven` is the reason why silence of Triton's sanitizer proves nothing; empty if it does."""
        self.spec = spec
        self._unproven = unproven
        self._channel = channel
        self._case_file = case_file
        self._engine = engine
        gpu = gpu_of(spec.environment)
        self._hardware = hardware(spec.device, gpu) if gpu else None
        self._is_sound = True
        self._sent: RunRequest | None = None
        """The request that the child has ahead: it begins it as soon as it has answered the current one."""
        self._begun_s = 0.0
        """When the current case began."""
        self._ended_s = 0.0
        """When the child ended its last case, on the monotonic clock."""

    @property
    def pid(self) -> int | None:
        """The child's process id."""
        return self._channel.pid

    @property
    def is_sound(self) -> bool:
        return self._is_sound

    def is_fit(self) -> bool:
        return self._is_sound and not self._channel.has_ended()

    def activity(self) -> str:
        try:
            return self._channel.recorder.since(self._begun_s).activity(monotonic())
        except ValueError:  # the memory of a child that another thread has just closed
            return ""

    def ask(self, request: RunRequest, *, time_limit_s: float, following: RunRequest | None = None) -> Answer:
        """Run one case: see `CaseWorker.ask`."""
        # Unsound until the answer proves otherwise, whatever is raised in between.
        was_sound, self._is_sound = self._is_sound, False
        case = case_of(request)
        case_json = wire.request_to_json(case)
        self._channel.forget_log()
        with self._case_file.holding(wire.with_device(case_json, case.device)):
            was_sent, self._sent = self._sent is request, None
            # A child that had the case ahead began it when it ended the last one, before this call.
            started, begun_s = perf_counter(), self._ended_s if was_sent else monotonic()
            self._begun_s = begun_s
            request_json = case_json if request is case else wire.request_to_json(request)
            if not was_sound or not (was_sent or self._send(request, request_json)):
                raise WorkerGone("the worker was gone before it took the case")
            if following is not None and self._send(following, wire.request_to_json(following)):
                self._sent = following
            try:
                return self._await_answer(case, time_limit_s, started, begun_s)
            finally:
                self._channel.show_rest()

    def _await_answer(self, case: Case, time_limit_s: float, started: float, begun_s: float) -> Answer:
        match self._channel.wait(time_limit_s):
            case Frame(kind=FrameKind.FAULT, payload=payload):
                raise wire.from_json(payload, ChildError).error()
            case Frame(kind=kind, payload=payload) if kind in ANSWER_TYPES:
                return self._answer(payload, ANSWER_TYPES[kind], case, started)
            case Frame(kind=kind):
                raise WorkerError(f"a worker broke the protocol: it answered a case with {kind.name}")
            case Exited(unread=True) if not self._has_begun(begun_s):
                raise WorkerGone("the worker was gone before it took the case")
            case Exited(code=code):
                crashed = self._run_without_answer(case, self._crash(code, begun_s))
                return lambda: crashed
            case Orphaned():
                raise WorkerGone(f"the fork server died while {case} ran")
            case NoAnswer():
                ending = hang_inspection.timed_out(self._channel, self.spec, self._engine, time_limit_s, begun_s)
                self._channel.kill()
                silent = self._run_without_answer(case, ending)
                return lambda: silent

    def _has_begun(self, begun_s: float) -> bool:
        """True if a child that left something unread had begun its case: what it left is the request after that."""
        return self._sent is not None and bool(self._channel.recorder.since(begun_s).events)

    def kill(self) -> None:
        self._channel.kill()

    def close(self) -> None:
        self._is_sound = False
        self._channel.close()
        self._case_file.close()
        if self.pid is not None and (files := coredump.files_of(self.spec.environment, self.pid)):
            files.remove()

    def _send(self, request: RunRequest, text: str) -> bool:
        return self._channel.send(kind_of(request), text.encode())

    def _answer(self, payload: bytes, kind: type[Run], case: Case, started: float) -> Answer:
        engine_s, grown, is_lost, self._ended_s = COST.unpack_from(payload)
        self._is_sound = not is_lost and grown * GROWTH_ALLOWED < self.spec.memory_limit_bytes
        transport_s = max(0.0, perf_counter() - started - engine_s)
        starved = {STARVED: self._channel.starved_s} if self._channel.starved_s else {}
        log_tail = self._channel.log_tail if is_lost else ""

        def decode() -> Run:
            begun = perf_counter()
            try:
                run = wire.reply_from_json(payload[COST.size :], kind, case)
            except (ReplayError, RecursionError) as error:
                raise WorkerError(f"a worker broke the protocol: {str(error)[:200]}") from None
            seconds = {**run.seconds, **starved, "transport": transport_s + perf_counter() - begun}
            ending = with_assertion(run.ending, log_tail)
            read = replace(run, ending=ending, hardware=self._hardware, seconds=seconds)
            return read if run.instrumented is None else self._with_sanitizer_records(read, log_tail)

        return decode

    def _with_sanitizer_records(self, run: Run, log_tail: str) -> Run:
        """The run with the records that Triton's sanitizer printed."""
        instrumented, asked = run.instrumented, self.spec.instrumenting
        assert instrumented is not None
        assert asked is not None
        if self._unproven:
            run = replace(run, instrumented=replace(instrumented, unproven=self._unproven))
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

    def _run_without_answer(self, case: Case, ending: Ending) -> Run:
        asked = self.spec.instrumenting
        instrumented = Instrumented(mode=asked.mode, version=asked.version, unproven=NO_ANSWER) if asked else None
        return Run(case=case, engine=self._engine, ending=ending, hardware=self._hardware, instrumented=instrumented)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
