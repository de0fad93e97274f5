"""The cuda engine: cases run in this process on the real GPU, whose host code is told of another model if so asked."""

import importlib
import os
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from typing import Any

import torch

from harness.cuda import answers
from harness.cuda.canary_program import kept_patterns, on_gpu, sums
from harness.cuda.driver import RealDriver
from harness.cuda.exact import Bits, compared
from harness.cuda.faults import faulted
from harness.cuda.fitting import Fitting
from harness.cuda.guards import GuardedMemory
from harness.cuda.instrumentation import Instrumenting
from harness.cuda.instrumented_builds import InstrumentedBuilds, obstacle, turned_on
from harness.cuda.launches import Session, WatchedLaunches
from harness.cuda.unguarded import memory_of_this_process
from harness.cuda.wearing import answered, gpu_of_this_process, restriction
from harness.errors import WorkerError
from harness.model.case import Case
from harness.model.companion import Beside, Companion, is_sampled, order_matters, with_another_config
from harness.model.device import DeviceProfile
from harness.model.instrumented import Instrumentation, Instrumented
from harness.model.op import Op
from harness.model.run import Completed, Ending, Repeated, Run
from harness.ops.engine_parts import Seen, blamed
from harness.ops.execute import Execution
from harness.virtual import triton_seam

CANARY_ELEMENTS = 1 << 20


class CudaEngine:
    """Wears one device on one GPU and runs cases there; one to a process."""

    name = "cuda"

    _memory: GuardedMemory
    _execution: Execution
    """Both since a device is worn: which memory it is depends on what watches the process."""
    _checked: Instrumenting | None = None
    """The sanitizer whose checks Triton adds to each kernel."""

    def __init__(self) -> None:
        self._chooser = triton_seam.ConfigChooser()
        self._launches: WatchedLaunches | None = None
        self._held_to: int | None = None
        self._green: Any = None
        self._stream: Any = None
        self._seconds: dict[str, float] = {}
        self._builds: InstrumentedBuilds | None = None

    def prepare(self) -> None:
        """Load what every case needs on any device, without starting CUDA."""
        os.environ["TRITON_CACHE_DIR"] += triton_seam.WHOLE
        triton_seam.hash_compiler()
        with suppress(ImportError):
            importlib.import_module("torch._dynamo")

    def wear(self, device: DeviceProfile) -> None:
        """Answer for the device to host code; compile for, and run on, the GPU at hand."""
        gpu = gpu_of_this_process()
        told = answered(device, gpu)
        answers.answer_for(told)
        self._checked = turned_on(gpu)
        if self._checked is not None:
            self._builds = InstrumentedBuilds(self._checked)
        self._memory = memory_of_this_process(self._checked)
        self._execution = self._execution_in(self._memory)
        self._launches = WatchedLaunches(gpu.arch, lambda: self._chooser.chosen, self._memory)
        self._held_to = restriction(device, gpu)
        triton_seam.set_driver(RealDriver(told, gpu.arch, self._launches))
        Fitting(told, gpu, self._checked).install()
        triton_seam.on_compile(self._compiled)
        self._chooser.install()
        self._memory.install()

    def obstacle(self) -> str:
        """That a library started CUDA when it was imported, or a sanitizer lacks something: no child can run cases."""
        if not torch.cuda.is_initialized():
            return obstacle(self._checked) if self._checked else ""
        return "a library starts CUDA when it is imported: its cases cannot run in processes forked from that one"

    def begin(self) -> str:
        """Start CUDA, and see whether the GPU still does what every GPU does."""
        try:
            return kept_patterns(on_gpu, CANARY_ELEMENTS) or sums(on_gpu, CANARY_ELEMENTS)
        except RuntimeError as error:
            return f"the GPU cannot be used: {str(error).splitlines()[0]}"

    def run(self, op: Op, case: Case) -> Run:
        """Run one case on the GPU; a second time where its bands were damaged, or where it is one of those repeated."""
        if self._checked is not None and self._checked.mode is Instrumentation.FPSAN:
            return self._run_exactly(op, case)
        session = self._begin(case)
        repeated = None
        try:
            ending, results = self._execution.run(op, case)
            ending = faulted(blamed(ending, self._chooser.failed), session.under_way)
            if isinstance(ending, Completed):
                self._look_at_bands(op, case)
                if is_sampled(case) and self._checked is None:  # a check that fails then would count as other bits
                    repeated = self._repeat(op, case)
        finally:
            self._memory.forget()
        return Run(
            case=case,
            engine=self.name,
            ending=ending,
            launches=tuple(session.launches),
            results=results,
            memory=tuple(session.memory),
            repeated=repeated,
            instrumented=self._watched(session),
            seconds=self._split(),
        )

    def run_beside(self, op: Op, wanted: Beside) -> Companion:
        """Run one case on the GPU, compared with no reference."""
        session = self._begin(wanted.case)
        try:
            ending, sketches = self._execution.run_beside(op, wanted)
            ending = faulted(blamed(ending, self._chooser.failed), session.under_way)
        finally:
            self._memory.forget()
        return Companion(
            case=wanted.case,
            engine=self.name,
            ending=ending,
            launches=tuple(session.launches),
            sketches=sketches,
            instrumented=self._watched(session),
            seconds=self._split(),
        )

    def _run_exactly(self, op: Op, case: Case) -> Run:
        """Run one case twice, with two configs of a kernel, and keep of the results whether their bits are the same."""
        self._execution.seconds.clear()
        ending, first, before = self._bits(op, case)
        watched = self._watched(before)
        assert watched is not None
        assert self._builds is not None
        changed = with_another_config(case, before.launches)
        if changed is None:
            watched = replace(watched, unproven=watched.unproven or "no kernel of this case is autotuned")
        elif isinstance(ending, Completed):
            kernel, other = changed
            ending, second, after = self._bits(op, other)
            exact = compared(kernel, (before.launches, after.launches), first, second)
            reason = after.unwatched or self._builds.incomparable(launch.kernel for launch in before.launches)
            watched = replace(watched, exact=exact, unproven=watched.unproven or reason)
        return Run(
            case=case,
            engine=self.name,
            ending=ending,
            launches=tuple(before.launches),
            instrumented=watched,
            seconds=self._split(),
        )

    def _bits(self, op: Op, case: Case) -> tuple[Ending, Bits, Session]:
        session = self._begin(case)
        try:
            ending, bits = self._execution.run_for_bits(op, case)
            return faulted(blamed(ending, self._chooser.failed), session.under_way), bits, session
        finally:
            self._memory.forget()

    def _execution_in(self, memory: GuardedMemory) -> Execution:
        return Execution(
            self._surroundings,
            seen=Seen(
                writer_of=lambda value: self._session.writers.get(value.untyped_storage().data_ptr()),
                dot_precisions=lambda: {one for launch in self._session.launches for one in launch.dot_precisions},
                is_compared=lambda case: is_sampled(case) or order_matters(self._session.launches, ()),
            ),
            elsewhere=memory,
        )

    def _watched(self, session: Session) -> Instrumented | None:
        if self._builds is None:
            return None
        return self._builds.watched((launch.kernel for launch in session.launches), session.unwatched)

    def _begin(self, case: Case) -> Session:
        assert self._launches is not None, "wear a device first"
        self._chooser.wanted, self._chooser.failed = case.configs, None
        self._seconds = {}
        self._launches.session = Session()
        return self._launches.session

    def _look_at_bands(self, op: Op, case: Case) -> None:
        """Where something lies in them, run again and look after each launch."""
        assert self._launches is not None
        session = self._session
        damages = self._memory.damages()
        if not damages:
            return
        self._memory.forget()
        again = self._launches.session = Session(blames=True)
        self._execution.run_again(op, case)
        self._launches.session = session
        session.memory += again.memory or map(self._launches.trampled_by_nobody, damages)

    def _repeat(self, op: Op, case: Case) -> Repeated:
        assert self._launches is not None
        session = self._session
        self._memory.forget()
        self._launches.session = Session()
        ending, digests = self._execution.run_again(op, case)
        ending = faulted(ending, self._session.under_way)
        self._launches.session = session
        return Repeated(ending=ending, digests=digests)

    def _surroundings(self) -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(self._memory.watching())
        if self._held_to is not None:
            stack.enter_context(torch.cuda.stream(self._restricted_stream(self._held_to)))
        return stack

    def _restricted_stream(self, sm_count: int) -> Any:
        """A stream of a green context: what is launched on it, backward passes too, gets so many SMs and no more."""
        if self._stream is None:
            try:
                contexts = importlib.import_module("torch.cuda.green_contexts")
                self._green = contexts.GreenContext.create(sm_count, 0)  # lives as long as what is launched on it
                self._stream = self._green.Stream()
            except (ImportError, AttributeError, RuntimeError) as error:
                raise WorkerError(
                    f"work cannot be held to {sm_count} SMs: torch {torch.__version__} and this driver have no green "
                    f"contexts ({error}); choose a device with at least as many SMs as the GPU, or --engine virtual"
                ) from error
        return self._stream

    def _compiled(self, seconds: float) -> None:
        self._seconds["compile"] = self._seconds.get("compile", 0.0) + seconds

    def _split(self) -> dict[str, float]:
        phases = self._execution.seconds
        calls = phases.get("forward", 0.0) + phases.get("backward", 0.0)
        parts = {name: phases.get(name, 0.0) for name in ("inputs", "reference", "compare", "transfer")}
        return {**parts, **self._seconds, "host": max(0.0, calls - sum(self._seconds.values()))}

    @property
    def _session(self) -> Session:
        assert self._launches is not None
        return self._launches.session
