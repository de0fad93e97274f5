"""The execution of an op: forward, backward, reference, comparison.

It is the same for every engine.  `harness.execution.execution_hooks` has what an engine adds.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from operator import and_
from typing import Any, Self

import numpy as np
import torch

from harness.engines.torch.captured_graphs import HostRead
from harness.engines.torch.outside_memory import AllocationWatch
from harness.engines.torch.torch_seam import plain_torch
from harness.errors import CannotExecute
from harness.execution.array_functions import count, functions_of
from harness.execution.captured_calls import CapturedCall, RepeatableCall, replay_captured, replay_on_two_streams
from harness.execution.case_execution import (
    CaseExecution,
    LibraryContext,
    autograd_mode,
    calling_line,
    ending_by_text,
    source_of,
)
from harness.execution.compare import Noted, compare, digests, nan_result, sketch
from harness.execution.counter_numbers import CPU
from harness.execution.definition import Undefined, arrays, gradients, reference, with_zeros
from harness.execution.definition_memory import DefinitionMemory
from harness.execution.exact_comparison import SAMPLES, SPACING, STEP, ExactValues, compare_exact
from harness.execution.exact_memory import ExactMemory
from harness.execution.exact_torch import ExactTorch
from harness.execution.execution_hooks import (
    NO_LAUNCHES,
    ExecutionObserver,
    NoObserver,
    ObservedLaunches,
    TensorTransfer,
)
from harness.execution.gpu_judging import JudgingGpu, are_all_floats, differing, is_checked
from harness.execution.hypothesis_notes import noting
from harness.execution.inputs import (
    TORCH_DTYPES,
    computing_type,
    independent_of_taint,
    make_cotangents,
    make_inputs,
    rounding_unit,
    seed_globals,
    undefined_outputs,
    without_cells,
    without_undefined_cells,
)
from harness.execution.monte_carlo import Jitter
from harness.execution.nan_taint import holds_infinity, infinity_as_nan
from harness.execution.oversized_tensors import SparseMemory, UnknownValues
from harness.execution.picked_configs import picking
from harness.execution.result_forms import OutputsDiffer, Tensors, differences, form_of, forms, in_type, named
from harness.execution.rounding_borders import RandomRounding, neighbours_of
from harness.execution.rounding_samples import BARE, IN_DOUBT, UNROUNDED, USUALLY, Sampling, are_right
from harness.execution.row_trials import (
    Allowance,
    Arrangement,
    Axes,
    CarriedRows,
    OutputAxes,
    RowComparison,
    SeenRows,
    TorchSums,
    difference,
    output_cotangents,
)
from harness.execution.suite_arguments import arguments_for, results_asked_for
from harness.execution.tolerance import NO_ERROR, Array, Expected, Neighbours, Tolerance, Truth, error_of, tolerance_of
from harness.model.case import FAR_FROM_ONE, Case, DType, Scale, ValueDistribution
from harness.model.later_calls import GraphReplay
from harness.model.op import Op
from harness.model.paired_run import PairedRunRequest, Sketch
from harness.model.product_precision import product_epsilon
from harness.model.run import (
    Ending,
    ExactComparison,
    FormMismatch,
    GpuJudgement,
    NanResult,
    Result,
    ResultForm,
    Role,
    Writer,
)

HALVES = (torch.float16, torch.bfloat16)
"""Products of numbers of eight bits, and of integers, are often stored in these."""
JITTER_SEEDS = 1009
"""Seeds of random rounding for each seed of a case; more than any case takes samples."""
HEADROOM = 16.0
"""An intermediate within this factor of the type's largest number may overflow if operations are reordered."""


@dataclass(frozen=True, slots=True)
class LaterResults:
    """The results of a later call of a case; none unless it completed."""

    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    """As `Result.digest`, by name."""
    projections: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    """As `Result.sketch`, by name."""


class Execution(CaseExecution):
    """Runs cases of ops through the library, and compares the results with the op's definition."""

    def __init__(  # noqa: PLR0913 - each is a part that an engine may add
        self,
        library_context: LibraryContext,
        on_new_thread: Callable[[], object] = lambda: None,
        *,
        launches: ObservedLaunches = NO_LAUNCHES,
        transfer: TensorTransfer | None = None,
        observer: ExecutionObserver | None = None,
        judging: JudgingGpu | None = None,
    ) -> None:
        """Without a `transfer` the library gets the very tensors that were made, on the CPU.

        `judging` is the GPU that judges larger cases, if one does.
        """
        super().__init__(library_context, on_new_thread, launches=launches)
        self._judging = judging
        self._computing: Callable[[], AbstractContextManager[None]] = plain_torch
        """The context of definitions and comparisons."""
        self._transfer = transfer
        self._observer = observer or NoObserver()
        self._writers: dict[str, Writer] = {}
        self._memory, self._gpu_memory = DefinitionMemory(), DefinitionMemory()
        self._compared_last: _ComparedCase | None = None
        self.drawing = DrawnTensors()
        """Where inputs and cotangents come from, unless a GPU judges the case."""
        self._exact_before: Mapping[str, Array] = {}
        """The exact values of the exact run before, of the same case."""

    def run_for_bits(self, op: Op, case: Case) -> tuple[Ending, Mapping[str, tuple[str, Writer]]]:
        """Run the case without a reference; return how it ended, and by name the digest and the writer of each result.

        Unlike the digests of `run_again`, these differ between NaNs of different bits.
        """
        return self._ended(op, lambda: self._bits(op, case), {})

    def run_exact(self, op: Op, case: Case, memory: ExactMemory) -> tuple[Ending, tuple[ExactComparison, ...]]:
        """Run the case again beside its exact values, and compare these; call it right after `run` of the same case.

        A second call for the same case, whose values are moved at random, compares the exact values of the first one.
        Results that are no floating-point numbers, or have another form than their definition, are left out.
        """
        return self._ended(op, lambda: self._exact_comparisons(op, case, memory), ())

    def run_later(self, op: Op, case: Case) -> tuple[Ending, LaterResults]:
        """Run the case once more without a reference; return how it ended, and its results."""
        return self._ended(op, lambda: self._later_results(op, case), LaterResults())

    def run_captured(self, op: Op, case: Case) -> tuple[GraphReplay, CapturedCall | None]:
        """Run the case in a CUDA graph, beside calls without one; return the outcome, and the graph if there is one."""
        ending, (read, captured) = self._ended(op, lambda: self._replayed(op, case), (None, None))
        if read is not None:
            return GraphReplay(ending=ending, host_read=read.operator, source=source_of(read)), None
        if captured is None:
            return GraphReplay(ending=ending), None
        seen = GraphReplay(
            ending=ending, differing=captured.differing, reordered=captured.reordered, beside=captured.beside
        )
        return seen, captured

    def run_beside(self, op: Op, case: Case, captured: CapturedCall) -> Ending:
        """Run a case while a captured graph is kept, and watch what it allocates in memory that the graph uses."""

        @contextmanager
        def watching() -> Generator[None]:
            with self._library_context(), AllocationWatch(captured.outside, calling_line):
                yield

        return self._ended(op, lambda: self._compute(op, case, is_again=True, around=watching) and None, None)[0]

    def run_rows(self, op: Op, arrangement: Arrangement, axes: OutputAxes) -> tuple[Ending, RowComparison]:
        """Run rows of a case in other company; call it after `run` of the case, and before that of another one."""
        return self._ended(op, lambda: self._row_comparison(op, arrangement, axes), RowComparison())

    def run_rows_unread(self, op: Op, arrangement: Arrangement) -> Ending:
        """Run rows of a case in other company for what the calls leave or launch; the case itself need not have run."""

        def call() -> None:
            self._compute(op, arrangement.case, is_again=True, drawn=DrawnTensors(inputs=arrangement.inputs))

        return self._ended(op, call, None)[0]

    def _row_comparison(self, op: Op, arrangement: Arrangement, axes: OutputAxes) -> RowComparison:
        compared = self._compared_last
        assert compared is not None, "the case has not been compared with its definition"
        assert compared.computed.case == arrangement.original, "another case has run since"
        before = compared.computed

        def cotangents(case: Case, outputs: Tensors) -> Tensors:
            assert case == arrangement.case
            return output_cotangents(arrangement, axes, before.cotangents, outputs)

        sums: dict[str, None] = {}

        @contextmanager
        def noting_sums() -> Generator[None]:
            with self._library_context(), TorchSums(sums):
                yield

        drawn = DrawnTensors(inputs=arrangement.inputs, cotangents=cotangents)
        results = self._compute(op, arrangement.case, is_again=True, drawn=drawn, around=noting_sums).results
        with self._timed("compare"), plain_torch():
            carried = {
                name: CarriedRows.of(arrangement, own)
                for name in compared.expected
                if name in results and name in before.results and (own := _axes_of(before, name, arrangement, axes))
            }
            pairs = {name: (before.results[name], results[name]) for name in carried}
            allowances = {
                name: Allowance(expected=expected, tolerance=tolerance_of(expected, pairs[name][0].dtype, op.slack))
                for name, expected in compared.expected.items()
                if name in carried
            }
            found = {name: difference(name, pairs[name], carried[name], allowances[name]) for name in carried}
            seen = SeenRows(arrangement=arrangement, outputs=dict(axes.by_name), carried=carried)
            self._observer.on_rows(seen, found)
        return RowComparison(found=found, torch_sums=tuple(sums))

    def _results(self, op: Op, case: Case) -> tuple[Result, ...]:
        computed = self._compute(op, case)
        if case.scale is Scale.OVERSIZED:
            return ()
        is_shared = self._launches.is_compared(case)
        if computed.judging is None:
            return self._compared(computed, is_shared=is_shared)
        return self._judged(computed.judging, computed, is_shared=is_shared)

    def _judged(self, gpu: JudgingGpu, computed: "_Computed", *, is_shared: bool) -> tuple[Result, ...]:
        """Judge a case on the GPU, and let the CPU decide if a result is not right, or if it checks this case."""
        results = self._judged_on(gpu, computed, is_shared=is_shared)
        of_gpu, self._compared_last = self._compared_last, None
        is_settled = results is not None and are_right(results) and not self.mismatches and not self.is_undefined
        is_large = not self._memory.allows(computed.op, computed.case)
        if results is not None and (is_large or (is_settled and not is_checked(computed.op, computed.case))):
            self.judged_on_gpu = GpuJudgement(is_checked=False)
            return results
        if is_large:
            raise CannotExecute("a definition for which the GPU has no memory left")
        self.is_undefined, self.nans = False, ()
        results = self._compared(computed.moved_to(None), is_shared=is_shared)
        by_cpu = self._compared_last
        if of_gpu is not None and by_cpu is not None:
            self.judged_on_gpu = GpuJudgement(is_checked=True, differing=differing(of_gpu.expected, by_cpu.tolerances))
        return results

    def _judged_on(self, gpu: JudgingGpu, computed: "_Computed", *, is_shared: bool) -> tuple[Result, ...] | None:
        """Judge a case on the GPU alone; return None if it cannot."""
        if not are_all_floats(computed.results.values()):
            return None
        try:
            return self._judged_alone(gpu, computed, is_shared=is_shared)
        except torch.OutOfMemoryError:  # other processes have the memory
            return None

    def _judged_alone(self, gpu: JudgingGpu, computed: "_Computed", *, is_shared: bool) -> tuple[Result, ...]:
        self._computing = gpu.computing
        try:
            return self._compared(computed.moved_to(gpu), is_shared=is_shared)
        finally:
            self._computing = plain_torch

    def _sketches(self, op: Op, request: PairedRunRequest) -> tuple[Sketch, ...]:
        """Compute the case without a reference, since both runs have the same tolerances.

        Tolerances follow from inputs and definition, which the runs share, and from the precision of the kernels' dots.
        If that precision differs, this run computes its own tolerances.
        """
        case = request.case
        computed = self._compute(op, case)
        if case.scale is Scale.OVERSIZED:
            return ()
        if product_epsilon(self._launches.dot_precisions()) != product_epsilon(request.dot_precisions):
            if computed.judging is None:
                return tuple(map(Sketch.of, self._compared(computed, is_shared=True)))
            return tuple(map(Sketch.of, self._judged_alone(computed.judging, computed, is_shared=True)))
        with self._timed("compare"), plain_torch():
            return tuple(sketch(name, value, seed=case.seed) for name, value in computed.results.items())

    def _call(self, op: Op, case: Case) -> None:
        self._compute(op, case, is_again=True)

    def _digests(self, op: Op, case: Case) -> dict[str, str]:
        computed = self._compute(op, case, is_again=True)
        with self._timed("compare"), plain_torch():
            return digests(computed.results)

    def _later_results(self, op: Op, case: Case) -> LaterResults:
        computed = self._compute(op, case, is_again=True)
        with self._timed("compare"), plain_torch():
            results = computed.results
            sketches = (sketch(name, value, seed=case.seed) for name, value in results.items())
            return LaterResults(digests(results), {each.name: each.projections for each in sketches})

    def _replayed(self, op: Op, case: Case) -> tuple[HostRead | None, CapturedCall | None]:
        try:
            with picking(op, case), self._library_context(), autograd_mode(case):
                captured = replay_captured(self._repeatable(op, case))
                if op.threads and not captured.differing:
                    other = replace(case, seed=case.seed + 1)
                    names = replay_on_two_streams(self._repeatable(op, case), self._repeatable(op, other))
                    captured = replace(captured, beside=names)
                return None, captured
        except HostRead as read:
            return read, None

    def _repeatable(self, op: Op, case: Case) -> RepeatableCall:
        """Return the call of a case that can be captured: forward and backward in one thread, in the same memory."""
        wanted = op.wanted_gradients(case)
        with self._timed("inputs"), plain_torch():
            declared = make_inputs(op, case)
            inputs = {
                name: value.detach().clone().requires_grad_(name in wanted)
                for name, value in declared.items()
                if value is not None
            }
            seed_globals(case)
            undefined = undefined_outputs(op, case, {**dict.fromkeys(declared), **inputs})
        arguments = arguments_for(op.call, {**dict.fromkeys(declared), **inputs}, op.settings(case))
        leaves = {name: value for name, value in inputs.items() if name in wanted}
        outputs: Tensors = {}
        cotangents: Tensors = {}

        def draw(drawn: Case) -> Tensors:
            return without_cells(make_cotangents(drawn, outputs), _fitted(undefined, outputs)) if leaves else {}

        def call() -> Tensors:
            with self._timed("forward"):
                returned = named(op.call(**arguments))
            if not outputs:
                with plain_torch():
                    outputs.update({name: torch.empty_like(value, device="meta") for name, value in returned.items()})
                    cotangents.update(draw(case))
            with self._timed("backward"):
                found = _backward(nullcontext, [], returned, leaves, cotangents)
            gradients = {name: value for name, value in found.items() if value is not None}
            return {**{name: value for name, value in returned.items() if name not in undefined}, **gradients}

        return RepeatableCall(op=op, case=case, inputs=inputs, call=call, cotangents=cotangents, draw_cotangents=draw)

    def _bits(self, op: Op, case: Case) -> dict[str, tuple[str, Writer]]:
        computed = self._compute(op, case)
        with self._timed("compare"), plain_torch():
            by_name = digests(computed.results, nans_are_alike=False)
            return {name: (digest, self._writers[name]) for name, digest in by_name.items()}

    def _exact_comparisons(self, op: Op, case: Case, memory: ExactMemory) -> tuple[ExactComparison, ...]:
        compared = self._compared_last
        assert compared is not None, "the case has not been compared with its definition"
        assert compared.computed.case == case, "another case has run since"

        @contextmanager
        def followed() -> Generator[None]:
            with self._library_context(), ExactTorch(memory):
                yield

        results = self._compute(op, case, is_again=True, around=followed).results
        with self._timed("reference"), plain_torch():
            moved = _moved_definitions(compared.computed, compared.defined)
            eager = arrays(compared.defined.eager())
        with self._timed("compare"), plain_torch():
            values = {
                name: (results[name], memory.read(results[name]).reshape(expected.truth.values.shape).numpy())
                for name, expected in compared.expected.items()
                if _keeps_exact_values(results.get(name), expected)
            }
            before = self._exact_before
            self._exact_before = {name: exact for name, (_, exact) in values.items()}
            return tuple(
                compare_exact(
                    name,
                    ExactValues(real=real, exact=before.get(name, exact), moved=exact if name in before else None),
                    compared.expected[name],
                    [sample[name] for sample in moved],
                    eager,
                )
                for name, (real, exact) in values.items()
            )

    def _compute(
        self,
        op: Op,
        case: Case,
        *,
        is_again: bool = False,
        around: LibraryContext | None = None,
        drawn: "DrawnTensors | None" = None,
    ) -> "_Computed":
        """Make the inputs, and call the library forward and backward, in the context `around`."""
        with picking(op, case) as called:
            computed = self._compute_picked(op, case, is_again=is_again, around=around, drawn=drawn)
        if not is_again:
            self.unasked = tuple(picked.function for picked in case.picked if picked.function not in called)
        return computed

    def _compute_picked(
        self, op: Op, case: Case, *, is_again: bool, around: LibraryContext | None, drawn: "DrawnTensors | None"
    ) -> "_Computed":
        self._observer.on_begin(case, is_again=is_again)
        # Rows in other company, and exact runs, are compared on the CPU.
        judging = self._judging_of(op, case) if drawn is None and around is None else None
        if not is_again or case.scale is Scale.OVERSIZED:  # no definition is computed again
            self._check_memory(op, case, judging)
        tensors = drawn or (self.drawing if judging is None else DrawnTensors.on(judging.place_of_inputs(op)))
        sparse_memory = partial(SparseMemory, UnknownValues())
        context = sparse_memory if case.scale is Scale.OVERSIZED else around or self._library_context
        with self._timed("inputs"), plain_torch():
            declared = tensors.inputs(op, case)
            kept, passed = self._passed(case, {name: value for name, value in declared.items() if value is not None})
            kept = without_undefined_cells(op, case, kept)
            inputs = {**dict.fromkeys(declared), **passed}
            seed_globals(case)
        notes = [] if is_again else self.notes
        returned = self._forward(op, case, inputs, context, notes)
        outputs = named(returned)
        with self._timed("inputs"), plain_torch():
            self._observer.on_outputs(outputs)
            undefined = _fitted(undefined_outputs(op, case, {**dict.fromkeys(declared), **kept}), outputs)
            made = without_cells(tensors.cotangents(case, outputs), undefined)
            kept_cotangents, cotangents = self._passed(case, made)
        leaves = {name: value for name in op.wanted_gradients(case) if (value := inputs[name]) is not None}
        asked = results_asked_for(op.reference, outputs, {*declared, *op.settings(case)})
        with self._timed("backward"):
            work = partial(_backward, context, notes, outputs, leaves, cotangents)
            # With CUDA tensors, torch itself runs backward in another thread.
            wanted = work() if self._transfer else self._calls.in_backward_thread(work)
        returned_results = {**outputs, **with_zeros(wanted, leaves)}
        results = self._blanked(self._returned(returned_results, judging), undefined)
        return _Computed(
            op=op,
            case=case,
            inputs={**dict.fromkeys(declared), **kept, **{name: results[name].detach() for name in asked}},
            cotangents=kept_cotangents,
            results=results,
            outputs=forms(returned),
            unused=frozenset(name for name, gradient in wanted.items() if gradient is None),
            undefined=undefined,
            judging=judging,
        )

    def _judging_of(self, op: Op, case: Case) -> JudgingGpu | None:
        """Return the GPU that judges the case, if one does."""
        gpu = self._judging
        return gpu if gpu is not None and gpu.takes(op, case) else None

    def _check_memory(self, op: Op, case: Case, judging: JudgingGpu | None) -> None:
        if case.scale is not Scale.OVERSIZED:
            if judging is None:
                self._memory.check(op, case)
            elif not self._memory.allows(op, case):
                self._gpu_memory.most_bytes = judging.most_bytes()
                self._gpu_memory.check(op, case)
        elif self._transfer:
            raise CannotExecute("an oversized case, of which a few programs run,")

    def _passed(self, case: Case, tensors: Tensors) -> tuple[Tensors, Tensors]:
        """Return what the reference gets, and what the library gets: libraries overwrite inputs to save memory.

        A transfer copies, so the tensors that were made stay as they are.  Oversized cases have no reference.
        """
        if self._transfer is not None:
            return tensors, {name: self._transfer.to_gpu(value) for name, value in tensors.items()}
        if case.scale is Scale.OVERSIZED:
            return tensors, tensors
        return {name: value.detach().clone() for name, value in tensors.items()}, tensors

    def _forward(
        self,
        op: Op,
        case: Case,
        inputs: Mapping[str, torch.Tensor | None],
        context: LibraryContext,
        notes: list[str],
    ) -> Any:
        """Call the library, and return what it returns."""
        arguments = arguments_for(op.call, inputs, op.settings(case))

        def forward() -> Any:
            with context(), autograd_mode(case), noting(notes):
                return op.call(**arguments)

        with self._timed("forward"):
            return self._calls.call(case.context, forward)

    def _returned(self, results: Tensors, judging: JudgingGpu | None) -> Tensors:
        """Return the results where they are judged; note their writers before: launches know tensors by addresses."""
        with self._timed("transfer"):
            self._writers = {name: self._launches.writer_of(value) for name, value in results.items()}
            if self._transfer is None or judging is not None:
                return results
            return {name: self._transfer.to_cpu(value) for name, value in results.items()}

    def _blanked(self, results: Tensors, undefined: Mapping[str, torch.Tensor]) -> Tensors:
        """Overwrite cells that the op leaves undefined with zeros, in place: exact values are found by address."""
        with plain_torch():
            for name, cells in undefined.items():
                values = results[name].detach()
                is_byte = values.is_floating_point() and values.element_size() == 1  # torch cannot fill these
                (values.view(torch.uint8) if is_byte else values).masked_fill_(cells, 0)
        return results

    def _compared(self, computed: "_Computed", *, is_shared: bool) -> tuple[Result, ...]:
        """Compare the results with their definition.

        Random rounding costs most of a small case, so samplings are tried from the cheapest on, until one settles it.
        A run that is shared, that is, whose tolerances serve for paired runs, needs at least the usual samples.
        """
        self._compared_last = None
        try:
            with self._timed("reference"), self._computing():
                products = product_epsilon(self._launches.dot_precisions())
                rounding = RandomRounding(epsilon=rounding_unit(computed.case.dtype), products=products)
                defined = _define(computed, rounding, is_shared=is_shared)
                self.mismatches = (*_other_types(computed, defined), *_other_gradients(computed, defined))
        except OutputsDiffer as error:
            expected = in_type(error.expected, computing_type(computed.case.dtype))
            self.mismatches = differences(computed.outputs, expected)
            return ()
        except Undefined:
            with self._timed("compare"), self._computing():
                self.is_undefined, self.nans = True, self._nans(computed)
            return ()
        *samplings, last = (USUALLY, IN_DOUBT) if is_shared else (BARE, UNROUNDED, USUALLY, IN_DOUBT)
        for sampling in samplings:
            results = self._sampled(computed, defined, sampling, is_shared=is_shared)
            if sampling.settles(results):
                return results
        return self._sampled(computed, defined, last, is_shared=is_shared)

    def _nans(self, computed: "_Computed") -> tuple[NanResult, ...]:
        """Return the results that hold NaN; none if an input holds NaN or infinity."""
        inputs = (*computed.inputs.values(), *computed.cotangents.values())
        if not all(value is None or bool(value.isfinite().all()) for value in inputs):
            return ()
        return tuple(
            nan_result(name, value, self._writers[name])
            for name, value in computed.results.items()
            if value.is_floating_point() and bool(value.isnan().any())
        )

    def _sampled(
        self, computed: "_Computed", defined: "_Defined", sampling: Sampling, *, is_shared: bool
    ) -> tuple[Result, ...]:
        """Compare the results; end before the last sample if they are right whatever it is, and no other run asks."""
        largest = max((count(truth.values) for truth in defined.truth.values()), default=0)
        samples = _Samples(sampling=sampling, runs=sampling.runs(largest))
        for look in sampling.looks if not is_shared else ():
            if look < samples.runs and are_right(results := self._compared_to(computed, defined, samples, look)):
                return results
        return self._compared_to(computed, defined, samples, samples.runs)

    def _compared_to(
        self, computed: "_Computed", defined: "_Defined", samples: "_Samples", enough: int
    ) -> tuple[Result, ...]:
        """Take samples until there are enough, and compare the results with what they show."""
        with self._timed("reference"), self._computing():
            while len(samples.rounded) < enough:
                self._sample(computed, defined, samples)
            expected = self._expect(computed, defined, samples)
        with self._timed("compare"), self._computing():
            self._exact_before = {}
            self._compared_last = _ComparedCase(computed=computed, defined=defined, expected=expected)
            has_error_map = samples.sampling.may_blame and enough == samples.runs
            noted = Noted(sketch_seed=defined.sketch_seed, has_error_map=has_error_map)
            return self._compare(computed, expected, noted)

    def _sample(self, computed: "_Computed", defined: "_Defined", samples: "_Samples") -> None:
        """Run the definition once more with random rounding."""
        case, sample = computed.case, len(samples.rounded)
        limits = torch.finfo(computing_type(case.dtype))
        # The subnormal numbers of other types are far below any tolerance.
        spacing = limits.smallest_normal * limits.eps if case.dtype is DType.FP16 else 0.0
        products = product_epsilon(self._launches.dot_precisions())
        unit, seed = rounding_unit(case.dtype), JITTER_SEEDS * case.seed + sample
        with Jitter(unit, seed, products=products, spacing=spacing, terms=samples.sampling.moves_terms) as jitter:
            jitter.partial = _partial(case)
            jitter.records_largest = not sample and (case.dtype is DType.FP16 or case.values in FAR_FROM_ONE)
            samples.rounded.append(_moved(computed, defined))
        samples.may_overflow |= jitter.largest * HEADROOM > limits.max

    def _expect(self, computed: "_Computed", defined: "_Defined", samples: "_Samples") -> dict[str, Expected]:
        """Return for each result the truth, the eager baseline's error, and the error that random rounding explains."""
        op, case = computed.op, computed.case
        sampling, rounded = samples.sampling, samples.rounded
        as_tensors = defined.is_of_tensors
        eager = arrays(defined.eager(), as_tensors=as_tensors) if sampling.has_baseline else None
        neighbours = defined.neighbours() if _has_other_integers(computed, defined) else {}

        def settled(name: str, values: Array) -> Array:
            return neighbours[name].settled(values, defined.truth[name].values) if name in neighbours else values

        return {
            name: Expected(
                role=Role.GRADIENT if name.startswith("d:") else Role.OUTPUT,
                truth=truth,
                in_range=_all_of(
                    None if eager is None else functions_of(eager[name]).isfinite(eager[name]),
                    None if defined.infinity_as_nan is None else np.isfinite(defined.infinity_as_nan[name]),
                    None if (cells := computed.undefined.get(name)) is None else ~cells.numpy(),
                    independent_of_taint(op, case, name),
                ),
                may_overflow=samples.may_overflow,
                baseline=NO_ERROR if eager is None else error_of([settled(name, eager[name])], truth),
                rounding=sampling.error_so_far(
                    [settled(name, sample[name]) for sample in rounded], truth, samples.runs
                ),
                neighbours=neighbours.get(name),
                samples=samples.runs,
                checks_noise=sampling.checks_noise,
                partial=_partial(case),
            )
            for name, truth in defined.truth.items()
        }

    def _compare(self, computed: "_Computed", expected: Mapping[str, Expected], noted: Noted) -> tuple[Result, ...]:
        op = computed.op
        absent = {mismatch.name for mismatch in self.mismatches if mismatch.got is None or mismatch.expected is None}
        values = {name: value for name, value in computed.results.items() if name in expected and name not in absent}
        results: list[Result] = []
        for name, value in values.items():
            tolerance = tolerance_of(expected[name], value.dtype, op.slack)
            results.append(compare(name, value, expected[name], tolerance, replace(noted, writer=self._writers[name])))
        self._observer.on_expected(op, values, expected)
        return tuple(results)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTensors:
    """Where the inputs and the cotangents of a run come from; by default from the case's seed."""

    inputs: Callable[[Op, Case], Mapping[str, torch.Tensor | None]] = make_inputs
    cotangents: Callable[[Case, Tensors], Tensors] = make_cotangents

    @classmethod
    def on(cls, device: torch.device | None) -> Self:
        """Return the drawing from the case's seed, of large tensors on this device; None for zeros without memory."""
        return cls(inputs=partial(make_inputs, large_on=device), cotangents=partial(make_cotangents, large_on=device))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Computed:
    """A case as the library computed it."""

    op: Op
    case: Case
    inputs: Mapping[str, torch.Tensor | None]
    """Copies from before the library's call, which may overwrite its inputs."""
    cotangents: Tensors
    """Copies from before the backward pass."""
    results: Tensors
    outputs: Mapping[str, ResultForm]
    """The forms of all outputs, also of those that are no tensors."""
    unused: frozenset[str]
    """The gradients that are zeros because the library returns none."""
    undefined: Tensors
    """By output, the mask of the cells that the op leaves undefined."""
    judging: JudgingGpu | None
    """The GPU that judges it, where the results are; None if they are on the CPU."""

    def moved_to(self, gpu: JudgingGpu | None) -> Self:
        """Return the same tensors on the GPU that judges them, or on the CPU."""
        device = CPU if gpu is None else gpu.device

        def moved(value: torch.Tensor) -> torch.Tensor:
            return value.detach().to(device).requires_grad_(value.requires_grad and value.is_leaf)

        return replace(
            self,
            inputs={name: None if value is None else moved(value) for name, value in self.inputs.items()},
            cotangents={name: moved(value) for name, value in self.cotangents.items()},
            results={name: moved(value) for name, value in self.results.items()},
            judging=gpu,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Defined:
    """The results of the op's definition for a case."""

    truth: Mapping[str, Truth]
    is_float: Mapping[str, bool]
    """By name, if a result holds floating-point numbers."""
    infinity_as_nan: Mapping[str, Array] | None
    """The definition's results with NaN in the place of every infinite input; None if no input is infinite.

    A definition and a kernel may each turn infinity into another finite number.  NaN shows which elements it reaches.
    """
    eager: Callable[[], Tensors]
    """The definition's results in the case's own type; computed at the first call."""
    neighbours: Callable[[], Mapping[str, Neighbours]]
    """What right kernels may give for integer results; computed at the first call."""
    sketch_seed: int | None
    """The seed of the sketches of results; None if no other run is compared with this one."""
    is_of_tensors: bool
    """True if tensors stand for arrays of NumPy: the results are judged on a GPU."""


@dataclass(slots=True, kw_only=True)
class _Samples:
    """The runs of a definition with random rounding so far."""

    sampling: Sampling
    runs: int
    """The number of all runs, unless fewer settle the results."""
    rounded: list[Mapping[str, Array]] = field(default_factory=list[Mapping[str, Array]])
    """The results of each run."""
    may_overflow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _ComparedCase:
    """The latest case that was compared with its definition."""

    computed: _Computed
    defined: _Defined
    expected: Mapping[str, Expected]

    @property
    def tolerances(self) -> Mapping[str, tuple[Expected, Tolerance]]:
        """By result, what it should be and its tolerance."""
        results, slack = self.computed.results, self.computed.op.slack
        return {
            name: (expected, tolerance_of(expected, results[name].dtype, slack))
            for name, expected in self.expected.items()
            if name in results
        }


def _define(computed: _Computed, rounding: RandomRounding, *, is_shared: bool) -> _Defined:
    case, inputs = computed.case, computed.inputs
    defining = partial(reference, computed.op, case, cotangents=computed.cotangents)
    exact, as_tensors = defining(inputs, dtype=torch.float64), computed.judging is not None
    as_nan = None
    if case.values is ValueDistribution.NAN_TAINTED and holds_infinity(inputs):
        as_nan = arrays(defining(infinity_as_nan(inputs), dtype=torch.float64))
    return _Defined(
        truth={name: Truth.of(values) for name, values in arrays(exact, as_tensors=as_tensors).items()},
        is_float={name: value.is_floating_point() for name, value in exact.items()},
        infinity_as_nan=as_nan,
        eager=cache(lambda: defining(inputs, dtype=computing_type(case.dtype))),
        neighbours=cache(lambda: neighbours_of(lambda: defining(inputs, dtype=torch.float64), rounding)),
        sketch_seed=case.seed if is_shared else None,
        is_of_tensors=as_tensors,
    )


def _partial(case: Case) -> float:
    """Return the unit in the last place of the type in which kernels of the case add up."""
    return torch.finfo(torch.float64 if case.dtype is DType.FP64 else torch.float32).eps


def _has_other_integers(computed: _Computed, defined: _Defined) -> bool:
    """Return True if an integer result differs from its definition."""
    return any(
        not np.array_equal(got.to(torch.float64).numpy().reshape(truth.values.shape), truth.values)
        for name, truth in defined.truth.items()
        if (got := computed.results.get(name)) is not None and not got.is_floating_point()
    )


def _other_types(computed: _Computed, defined: _Defined) -> Iterator[FormMismatch]:
    """Yield the outputs whose element type is none that the case or its definition allows.

    Statistics and losses are often float32 whatever the case's type, and an option may name another type.
    """
    named_types = (getattr(torch, str(setting), None) for setting in computed.op.settings(computed.case).values())
    own = computed.case.dtype
    allowed = {TORCH_DTYPES[own], torch.float32, *named_types, *(() if own.is_differentiable else HALVES)}
    for name in computed.outputs:
        got = computed.results.get(name)
        if got is None:
            continue
        is_float = got.is_floating_point()
        if is_float == defined.is_float[name] and (not is_float or got.dtype in allowed):
            continue
        eager = defined.eager()[name]
        if got.dtype != eager.dtype:
            yield FormMismatch(name=name, got=form_of(got), expected=form_of(eager))


def _other_gradients(computed: _Computed, defined: _Defined) -> Iterator[FormMismatch]:
    """Yield the gradients that only the definition has, or only the library.  One that is absent counts as zeros."""
    for name, truth in defined.truth.items():
        is_absent = name in computed.unused or name not in computed.results
        if is_absent and truth.values.any():
            form = form_of(computed.inputs[name.removeprefix("d:")])
            yield FormMismatch(name=name, got=None, expected=form)
    for name, got in computed.results.items():
        if name not in defined.truth and bool(got.any()):
            yield FormMismatch(name=name, got=form_of(got), expected=None)


def _backward(
    context: LibraryContext, notes: list[str], outputs: Tensors, leaves: Tensors, cotangents: Tensors
) -> Mapping[str, torch.Tensor | None]:
    differentiable = {name: output for name, output in outputs.items() if output.requires_grad}
    if not leaves or not differentiable:
        return {}
    with context(), noting(notes):
        return gradients(differentiable, leaves, cotangents)


def _fitted(masks: Tensors, results: Tensors) -> Tensors:
    """Return the masks in the shapes of their results, without those that do not fit."""
    return {
        name: mask.expand_as(results[name])
        for name, mask in masks.items()
        if name in results and _broadcasts(mask.shape, results[name].shape)
    }


def _broadcasts(shape: torch.Size, to: torch.Size) -> bool:
    return len(shape) <= len(to) and all(
        one in {1, other} for one, other in zip(reversed(shape), reversed(to), strict=False)
    )


def _all_of(*masks: Array | None) -> Array | None:
    """Return the elements in all of the masks; None for all elements."""
    held = [mask for mask in masks if mask is not None and not mask.all()]
    return reduce(and_, held) if held else None


def _moved(computed: _Computed, defined: _Defined) -> Mapping[str, Array]:
    """Return the results of the definition under random rounding, or its own if rounding moves it out of its domain.

    An index that follows from a number, as the place of a quantile, may be moved beyond the last one.
    """
    try:
        moved = reference(computed.op, computed.case, computed.inputs, computed.cotangents, torch.float64)
        return arrays(moved, as_tensors=defined.is_of_tensors)
    except (IndexError, RuntimeError) as error:
        if ending_by_text(error) is not None:
            raise
        return {name: truth.values for name, truth in defined.truth.items()}


def _moved_definitions(computed: _Computed, defined: _Defined) -> list[Mapping[str, Array]]:
    """Return the results of the definition with every intermediate moved at random, several times."""
    moved: list[Mapping[str, Array]] = []
    for sample in range(SAMPLES):
        with Jitter(STEP, JITTER_SEEDS * computed.case.seed + sample, spacing=SPACING):
            moved.append(_moved(computed, defined))
    return moved


def _axes_of(computed: _Computed, name: str, arrangement: Arrangement, known: OutputAxes) -> Axes:
    """Return the axes of a result that carry the rows of a trial; none of a gradient if an output combines rows."""
    if not name.startswith("d:"):
        return known.by_name.get(name, {})
    shape = tuple(computed.results[name].shape)
    return {} if known.sums_rows else arrangement.axes_of_input(computed.op, name[2:], shape)


def _keeps_exact_values(result: torch.Tensor | None, expected: Expected) -> bool:
    """Return True if an exact run can follow the result: it has the definition's size and a type of over 8 bits."""
    if result is None or not result.is_floating_point():
        return False
    return result.itemsize > 1 and result.numel() == expected.truth.values.size
