"""The cuda engine: cases run in this process on the real GPU, whose host code is told of another model if so asked."""

import importlib
import os
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from typing import Any

import torch

from harness.cuda.cuda_errors import fault_told, faulted
from harness.cuda.driver import RealDriver
from harness.cuda.emulated_limits import Fitting
from harness.cuda.emulation import answered, gpu_of_this_process, restriction
from harness.cuda.gpus.canary_program import CANARY_ELEMENTS, given_room, kept_patterns, on_gpu, sums
from harness.cuda.green_context import Restriction
from harness.cuda.launches import CudaCaseLaunches, WatchedLaunches
from harness.cuda.memory.redzones import GuardedMemory
from harness.cuda.sanitizers.fpsan_runs import Bits, compared
from harness.cuda.sanitizers.instrumentation import Instrumenting
from harness.cuda.sanitizers.instrumented_builds import InstrumentedBuilds, obstacle, turned_on
from harness.cuda.sanitizers.unguarded_memory import memory_of_this_process
from harness.devices.torch_emulation import gpu_properties
from harness.errors import WorkerError
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest, is_sampled, order_matters, with_another_config
from harness.model.run import Completed, Ending, Faulted, OutOfMemory, Repeated, Run
from harness.model.triton_sanitizer_report import Instrumentation, Instrumented
from harness.ops.execution import Execution
from harness.ops.execution_hooks import ObservedLaunches, blamed
from harness.virtual.driver import triton_seam


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
        self._restriction: Restriction | None = None
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
        answer_for(told)
        self._checked = turned_on(gpu)
        if self._checked is not None:
            self._builds = InstrumentedBuilds(self._checked)
        self._memory = memory_of_this_process(self._checked)
        self._execution = self._execution_in(self._memory)
        self._launches = WatchedLaunches(gpu.arch, lambda: self._chooser.chosen, self._memory)
        sm_count = restriction(device, gpu)
        self._restriction = None if sm_count is None else Restriction(sm_count)
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
            return given_room(lambda: kept_patterns(on_gpu, CANARY_ELEMENTS) or sums(on_gpu, CANARY_ELEMENTS))
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
            ending = self._ended(blamed(ending, self._chooser.failed))
            if isinstance(ending, Completed):
                ending = self._look_at_bands(op, case)
            # A sanitizer's check that fails the second time would count as other bits.
            if isinstance(ending, Completed) and is_sampled(case) and self._checked is None:
                repeated = self._repeat(op, case)
                ending = _of_second_run(repeated.ending)
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

    def run_beside(self, op: Op, wanted: PairedRunRequest) -> PairedRun:
        """Run one case on the GPU, compared with no reference."""
        session = self._begin(wanted.case)
        try:
            ending, sketches = self._execution.run_beside(op, wanted)
            ending = self._ended(blamed(ending, self._chooser.failed))
        finally:
            self._memory.forget()
        return PairedRun(
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

    def _bits(self, op: Op, case: Case) -> tuple[Ending, Bits, CudaCaseLaunches]:
        session = self._begin(case)
        try:
            ending, bits = self._execution.run_for_bits(op, case)
            return self._ended(blamed(ending, self._chooser.failed)), bits, session
        finally:
            self._memory.forget()

    def _execution_in(self, memory: GuardedMemory) -> Execution:
        return Execution(
            self._surroundings,
            seen=ObservedLaunches(
                writer_of=lambda value: self._session.writers.get(value.untyped_storage().data_ptr()),
                dot_precisions=lambda: {one for launch in self._session.launches for one in launch.dot_precisions},
                is_compared=lambda case: is_sampled(case) or order_matters(self._session.launches, ()),
            ),
            elsewhere=memory,
        )

    def _watched(self, session: CudaCaseLaunches) -> Instrumented | None:
        if self._builds is None:
            return None
        return self._builds.watched((launch.kernel for launch in session.launches), session.unwatched)

    def _begin(self, case: Case) -> CudaCaseLaunches:
        assert self._launches is not None, "wear a device first"
        self._chooser.wanted, self._chooser.failed = case.configs, None
        self._seconds = {}
        self._launches.session = CudaCaseLaunches()
        return self._launches.session

    def _ended(self, ending: Ending) -> Ending:
        """The ending, or the fault that is behind it: where the library puts it in words of its own, the GPU tells."""
        launch = self._session.under_way
        ending = faulted(ending, launch)
        if isinstance(ending, Completed | Faulted | OutOfMemory):
            return ending
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            return fault_told(str(error), launch) or ending
        return ending

    def _look_at_bands(self, op: Op, case: Case) -> Ending:
        """Where something lies in them, run again and look after each launch; the fault, if that ends by one."""
        assert self._launches is not None
        session = self._session
        damages = self._memory.damages()
        if not damages:
            return Completed()
        self._memory.forget()
        again = self._launches.session = CudaCaseLaunches(blames=True)
        ending, _ = self._execution.run_again(op, case)
        ending = self._ended(ending)
        self._launches.session = session
        session.memory += again.memory or map(self._launches.trampled_by_nobody, damages)
        return _of_second_run(ending)

    def _repeat(self, op: Op, case: Case) -> Repeated:
        assert self._launches is not None
        session = self._session
        self._memory.forget()
        self._launches.session = CudaCaseLaunches()
        ending, digests = self._execution.run_again(op, case)
        ending = self._ended(ending)
        self._launches.session = session
        return Repeated(ending=ending, digests=digests)

    def _surroundings(self) -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(self._memory.watching())
        if self._restriction is not None:
            stack.enter_context(self._restriction.held())
        return stack

    def _compiled(self, seconds: float) -> None:
        self._seconds["compile"] = self._seconds.get("compile", 0.0) + seconds

    def _split(self) -> dict[str, float]:
        phases = self._execution.seconds
        calls = phases.get("forward", 0.0) + phases.get("backward", 0.0)
        parts = {name: phases.get(name, 0.0) for name in ("inputs", "reference", "compare", "transfer")}
        return {**parts, **self._seconds, "host": max(0.0, calls - sum(self._seconds.values()))}

    @property
    def _session(self) -> CudaCaseLaunches:
        assert self._launches is not None
        return self._launches.session


def _of_second_run(ending: Ending) -> Ending:
    """How a case that had completed ended after all: by the fault that it met as it ran once more, if by any."""
    if isinstance(ending, Faulted):
        return replace(ending, message=f"{ending.message}, as the case ran a second time")
    return Completed()


def answer_for(profile: DeviceProfile) -> None:
    """Make torch.cuda tell this profile's figures, in this process, for good."""
    if torch.cuda.is_initialized():
        raise WorkerError("CUDA was started before the device was worn: no worker could be forked from this process")
    properties = gpu_properties(profile)
    answers = {
        "is_available": lambda: True,
        "device_count": lambda: 1,  # workers see one GPU
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: profile.name,  # noqa: ARG005 - torch's own name for it
        "get_device_capability": lambda device=None: profile.capability,  # noqa: ARG005 - as above
        "get_device_properties": lambda device=None: properties,  # noqa: ARG005 - as above
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
