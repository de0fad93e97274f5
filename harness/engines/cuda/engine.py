"""The cuda engine: cases run in this process on the hardware GPU, for which the host code may see another device."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from typing import Any

import torch

from harness.engines.cuda.cuda_errors import as_fault, parse_fault
from harness.engines.cuda.emulated_limits import SharedMemoryCheck
from harness.engines.cuda.emulation import emulated_profile, gpu_of_worker, sm_limit, use_one_connection
from harness.engines.cuda.gpus.canary import CANARY_ELEMENTS, check_memory, check_sums, to_gpu, wait_for_memory
from harness.engines.cuda.green_context import SmLimit
from harness.engines.cuda.launches import CudaCaseLaunches, WatchedLaunches
from harness.engines.cuda.memory.redzones import RedzoneMemory
from harness.engines.cuda.sanitizers.fpsan_runs import Bits, compare_configs
from harness.engines.cuda.sanitizers.instrumentation import Instrumenting
from harness.engines.cuda.sanitizers.instrumented_builds import InstrumentedBuilds, enable_instrumentation, obstacle
from harness.engines.cuda.sanitizers.sanitized_memory import memory_for
from harness.engines.cuda.sanitizers.sanitizer_command import VARIABLE
from harness.engines.torch.gpu_properties import gpu_properties
from harness.engines.torch.inductor.inductor_emulation import load_dynamo
from harness.engines.torch.native_refusals import refuse_cuda_graphs
from harness.engines.torch.torch_seam import RUN
from harness.engines.triton import triton_seam
from harness.engines.triton.hardware_driver import RealDriver
from harness.errors import WorkerError
from harness.execution.execution import Execution
from harness.execution.execution_hooks import ObservedLaunches, with_failed_kernel
from harness.execution.gpu_judging import MEMORY_SHARE, JudgingGpu
from harness.execution.paired_run_policy import is_sampled, order_matters, with_another_config
from harness.execution.reruns import needs_other_rows, recording
from harness.execution.row_checks import Work, check_rows
from harness.execution.row_trials import Arrangement, RowComparison
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.engine_traits import CUDA
from harness.model.kernel_assembly import KernelAssembly
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest
from harness.model.row_check import RowCheck
from harness.model.run import Completed, Ending, Faulted, Launch, OutOfMemory, Repeated, Result, Run
from harness.model.triton_sanitizer_report import Instrumentation, Instrumented
from harness.patches import PATCHES


class CudaEngine:
    """Runs cases on one GPU while it emulates one device; one engine per process."""

    traits = CUDA

    _memory: RedzoneMemory
    _execution: Execution
    """Set by `emulate`, like `_memory`: the kind of memory depends on the sanitizer in use."""
    _instrumentation: Instrumenting | None = None
    """Triton's own sanitizer that is compiled into each kernel."""

    def __init__(self) -> None:
        self._chooser = triton_seam.ConfigChooser()
        self._launches: WatchedLaunches | None = None
        self._sm_limit: SmLimit | None = None
        self._seconds: dict[str, float] = {}
        self._builds: InstrumentedBuilds | None = None
        self._arch = 0

    def prepare(self) -> None:
        """Load everything that cases on any device need, without starting CUDA."""
        use_one_connection(os.environ)
        triton_seam.hash_compiler()
        with suppress(ImportError):
            load_dynamo()

    def emulate(self, device: DeviceProfile) -> None:
        """Show the device to host code; compile for, and run on, the hardware GPU.

        This is where the engine reads its environment: the fork server has set it for this device by now.
        """
        os.environ["TRITON_CACHE_DIR"] += triton_seam.FULL_CACHE_SUFFIX
        gpu = gpu_of_worker(os.environ)
        self._arch = gpu.arch
        emulated = emulated_profile(device, gpu)
        emulate_torch_cuda(emulated)
        refuse_cuda_graphs()  # a capture forbids to wait for a launch, as every launch here is
        self._instrumentation = enable_instrumentation(gpu, os.environ)
        if self._instrumentation is not None:
            self._builds = InstrumentedBuilds(self._instrumentation)
        self._memory = memory_for(self._instrumentation, os.environ)
        self._execution = self._make_execution(self._memory)
        self._launches = WatchedLaunches(gpu.arch, lambda: self._chooser.chosen, self._memory)
        sm_count = sm_limit(device, gpu)
        self._sm_limit = None if sm_count is None else SmLimit(sm_count)
        triton_seam.set_driver(RealDriver(emulated, gpu.arch, self._launches))
        SharedMemoryCheck(emulated, gpu, self._instrumentation).install()
        triton_seam.on_compile(self._add_compile_seconds)
        self._chooser.install()
        triton_seam.watch_allocations(self._launches.allocate)
        self._memory.install()

    def obstacle(self) -> str:
        """Return why no child can run cases, if a library started CUDA on import or a sanitizer lacks something."""
        if not torch.cuda.is_initialized():
            return obstacle(self._instrumentation) if self._instrumentation else ""
        return "a library starts CUDA when it is imported: its cases cannot run in processes forked from that one"

    def begin(self) -> str:
        """Start CUDA and check that the GPU stores and computes correctly."""
        try:
            return wait_for_memory(lambda: check_memory(to_gpu, CANARY_ELEMENTS) or check_sums(to_gpu, CANARY_ELEMENTS))
        except RuntimeError as error:
            return f"the GPU cannot be used: {str(error).splitlines()[0]}"

    def assemble(self, assembly: KernelAssembly) -> None:
        """Assemble kernels this way; called before the only case of a process."""
        triton_seam.assemble_otherwise(assembly, self._arch)

    def run(self, op: Op, case: Case) -> Run:
        """Run one case; run it again if a redzone was damaged or if the case is sampled for repetition."""
        if self._instrumentation is not None and self._instrumentation.mode is Instrumentation.FPSAN:
            return self._run_two_configs(op, case)
        case_launches = self._begin(case)
        repeated, rows = None, None
        try:
            ending, results = self._execution.run(op, case)
            ending = self._with_fault(with_failed_kernel(ending, self._chooser.failed))
            if isinstance(ending, Completed):
                ending = self._check_redzones(op, case)
            # Not under a sanitizer: its check, failing in the repetition alone, would look like different bits.
            if isinstance(ending, Completed) and is_sampled(case) and self._instrumentation is None:
                repeated = self._repeat(op, case)
                ending = _ending_after_rerun(repeated.ending)
                rows = self._check_rows(op, case, case_launches, results, ending)
                ending = next(map(_ending_after_rerun, _faults(rows)), ending)
        finally:
            self._memory.forget()
        return Run(
            case=case,
            engine=self.traits.name,
            ending=ending,
            launches=tuple(case_launches.launches),
            results=results,
            mismatches=self._execution.mismatches,
            is_undefined=self._execution.is_undefined,
            nans=self._execution.nans,
            notes=tuple(self._execution.notes),
            unasked=self._execution.unasked,
            memory=(*case_launches.memory, *case_launches.scratch, *case_launches.foreign),
            repeated=repeated,
            rows=rows,
            judged_on_gpu=self._execution.judged_on_gpu,
            instrumented=self._sanitizer_report(case_launches),
            seconds=self._seconds_by_phase(),
        )

    def run_paired(self, op: Op, request: PairedRunRequest) -> PairedRun:
        """Run one case on the GPU, without a reference."""
        case_launches = self._begin(request.case)
        try:
            ending, sketches = self._execution.run_paired(op, request)
            ending = self._with_fault(with_failed_kernel(ending, self._chooser.failed))
        finally:
            self._memory.forget()
        return PairedRun(
            case=request.case,
            engine=self.traits.name,
            ending=ending,
            launches=tuple(case_launches.launches),
            sketches=sketches,
            instrumented=self._sanitizer_report(case_launches),
            seconds=self._seconds_by_phase(),
        )

    def _run_two_configs(self, op: Op, case: Case) -> Run:
        """Run one case with two configs of a kernel and compare the bits of the results (FpSan)."""
        self._execution.seconds.clear()
        ending, first, before = self._run_for_bits(op, case)
        report = self._sanitizer_report(before)
        assert report is not None
        assert self._builds is not None
        changed = with_another_config(case, before.launches)
        if changed is None:
            report = replace(report, unproven=report.unproven or "no kernel of this case is autotuned")
        elif isinstance(ending, Completed):
            kernel, other = changed
            ending, second, after = self._run_for_bits(op, other)
            exact = compare_configs(kernel, (before.launches, after.launches), first, second)
            reason = after.unchecked or self._builds.incomparable(launch.kernel for launch in before.launches)
            report = replace(report, exact=exact, unproven=report.unproven or reason)
        return Run(
            case=case,
            engine=self.traits.name,
            ending=ending,
            launches=tuple(before.launches),
            instrumented=report,
            seconds=self._seconds_by_phase(),
        )

    def _run_for_bits(self, op: Op, case: Case) -> tuple[Ending, Bits, CudaCaseLaunches]:
        case_launches = self._begin(case)
        try:
            ending, bits = self._execution.run_for_bits(op, case)
            return self._with_fault(with_failed_kernel(ending, self._chooser.failed)), bits, case_launches
        finally:
            self._memory.forget()

    def _make_execution(self, memory: RedzoneMemory) -> Execution:
        return Execution(
            self._case_context,
            launches=ObservedLaunches(
                writer_of=lambda value: self._case_launches.writers.get(value.untyped_storage().data_ptr()),
                dot_precisions=self._dot_precisions,
                is_compared=lambda case: is_sampled(case) or order_matters(self._case_launches.launches, ()),
            ),
            transfer=memory,
            judging=None
            if self._is_sanitized
            else JudgingGpu(device=torch.device("cuda"), most_bytes=_definition_bytes),
        )

    @property
    def _is_sanitized(self) -> bool:
        """True if a sanitizer watches every kernel of the process, also torch's own."""
        return self._instrumentation is not None or VARIABLE in os.environ

    def _dot_precisions(self) -> set[str]:
        return {precision for launch in self._case_launches.launches for precision in launch.dot_precisions}

    def _sanitizer_report(self, case_launches: CudaCaseLaunches) -> Instrumented | None:
        if self._builds is None:
            return None
        return self._builds.report((launch.kernel for launch in case_launches.launches), case_launches.unchecked)

    def _begin(self, case: Case) -> CudaCaseLaunches:
        assert self._launches is not None, "emulate a device first"
        self._chooser.requested, self._chooser.failed = case.configs, None
        self._seconds = {}
        self._launches.case_launches = CudaCaseLaunches(main_has_allocator=triton_seam.has_allocator())
        return self._launches.case_launches

    def _with_fault(self, ending: Ending) -> Ending:
        """Return the GPU fault behind the ending, or the ending if there is none.

        A library may catch a fault and raise its own error; synchronising then raises the fault again.
        """
        launch = self._case_launches.unfinished
        ending = as_fault(ending, launch)
        if isinstance(ending, Completed | Faulted | OutOfMemory):
            return ending
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            return parse_fault(str(error), launch) or ending
        return ending

    def _check_redzones(self, op: Op, case: Case) -> Ending:
        """If a redzone is damaged, run the case again and check after each launch, which finds the writer.

        Returns the ending of the rerun if a fault ended it, else `Completed()`.
        """
        assert self._launches is not None
        case_launches = self._case_launches
        damages = self._memory.damages()
        if not damages:
            return Completed()
        self._memory.forget()
        with recording(self._launches, CudaCaseLaunches(finds_writer=True)) as again:
            ending, _ = self._execution.run_again(op, case)
            ending = self._with_fault(ending)
        case_launches.memory += again.memory or map(self._launches.trampled_by_unknown_kernel, damages)
        return _ending_after_rerun(ending)

    def _repeat(self, op: Op, case: Case) -> Repeated:
        assert self._launches is not None
        self._memory.forget()
        with recording(self._launches, CudaCaseLaunches()):
            ending, digests = self._execution.run_again(op, case)
            return Repeated(ending=self._with_fault(ending), digests=digests)

    def _check_rows(
        self, op: Op, case: Case, before: CudaCaseLaunches, results: tuple[Result, ...], ending: Ending
    ) -> RowCheck | None:
        """Run rows of the case in other company, if it asks for that."""
        launches = tuple(before.launches)
        first = Run(case=case, engine=self.traits.name, ending=ending, launches=launches, results=results)
        if self._execution.judged_on_gpu is not None or not needs_other_rows(op, first):
            return None

        def trial(_: Arrangement, work: Work) -> tuple[Ending, RowComparison, tuple[Launch, ...]]:
            assert self._launches is not None
            self._memory.forget()
            with recording(self._launches, CudaCaseLaunches()) as again:
                ending, comparison = work()
                return self._with_fault(ending), comparison, tuple(again.launches)

        return check_rows(self._execution, op, first, trial)

    def _case_context(self) -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(self._memory.guarding())
        if self._sm_limit is not None:
            stack.enter_context(self._sm_limit.applied())
        return stack

    def _add_compile_seconds(self, seconds: float) -> None:
        self._seconds["compile"] = self._seconds.get("compile", 0.0) + seconds

    def _seconds_by_phase(self) -> dict[str, float]:
        phases = self._execution.seconds
        calls = phases.get("forward", 0.0) + phases.get("backward", 0.0)
        parts = {name: phases.get(name, 0.0) for name in ("inputs", "reference", "compare", "transfer")}
        return {**parts, **self._seconds, "host": max(0.0, calls - sum(self._seconds.values()))}

    @property
    def _case_launches(self) -> CudaCaseLaunches:
        assert self._launches is not None
        return self._launches.case_launches


def _definition_bytes() -> int:
    """Return the memory that a definition may take on the GPU."""
    _, total = torch.cuda.mem_get_info()
    return total // MEMORY_SHARE


def _faults(rows: RowCheck | None) -> Iterator[Faulted]:
    """Yield the faults of trials; after one, nothing else runs in this process."""
    for trial in () if rows is None else rows.trials:
        if isinstance(trial.ending, Faulted):
            yield trial.ending


def _ending_after_rerun(ending: Ending) -> Ending:
    """Return the final ending of a completed case: the fault of its rerun, if there was one."""
    if isinstance(ending, Faulted):
        return replace(ending, message=f"{ending.message}, as the case ran a second time")
    return Completed()


def emulate_torch_cuda(profile: DeviceProfile) -> None:
    """Make torch.cuda report the figures of this profile, until `PATCHES` are undone."""
    if torch.cuda.is_initialized():
        raise WorkerError(
            "CUDA was started before the device was emulated: no worker could be forked from this process"
        )
    properties = gpu_properties(profile)
    answers = {
        "is_available": lambda: True,
        "device_count": lambda: 1,  # workers see one GPU
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: profile.name,  # noqa: ARG005 - torch's parameter name
        "get_device_capability": lambda device=None: profile.capability,  # noqa: ARG005 - as above
        "get_device_properties": lambda device=None: properties,  # noqa: ARG005 - as above
    }
    PATCHES.replace_each(torch.cuda, answers, why="it answers for the emulated GPU", releases=RUN)
