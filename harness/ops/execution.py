"""One case from inputs to facts: forward, backward, two references, comparison.

The same for every engine; what an engine adds (who answers for the GPU, what memory saw) it wraps around `Execution`.
"""

import re
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

import harness
from harness.errors import CannotExecute, SuiteError
from harness.model.case import Case, DType, Scale, ValueDistribution
from harness.model.op import Op
from harness.model.paired_run import PairedRunRequest, Sketch
from harness.model.run import Completed, Ending, OutOfMemory, Raised, Refused, Result, Role, Source, Unsupported
from harness.ops import flight_recorder
from harness.ops.compare import Noted, compare, digests, sketch
from harness.ops.definition import Tensors, arrays, gradients, named, reference
from harness.ops.execution_hooks import NOTHING_SEEN, Elsewhere, ObservedLaunches, Writer
from harness.ops.inputs import TORCH_DTYPES, beside_spoiled, make_cotangents, make_inputs, seed_globals
from harness.ops.monte_carlo import Jitter, product_epsilon
from harness.ops.nan_taint import holds_infinity, unknown
from harness.ops.oversized_tensors import SparseMemory
from harness.ops.rounding_samples import BARE, IN_DOUBT, UNROUNDED, USUALLY, Sampling
from harness.ops.suite_arguments import wanted
from harness.ops.tolerance import NO_ERROR, Array, Expected, Truth, error_of, tolerance_of

T = TypeVar("T")

JITTER_SEEDS = 1009
HEADROOM = 16.0
"""An intermediate this close to the end of the type's range may leave it in another order of the same operations."""
TRACEBACK_LINES = 30
MISSING_OPERATOR = re.compile(r"Could not run '([\w:.]+)' with arguments from the")
"""What torch 2.13 says of an operator that it has for CUDA alone: nobody's refusal, a gap of the virtual GPU."""
HARNESS = str(Path(harness.__file__).parent)
NOT_THE_LIBRARY = ("/torch/", "/triton/", HARNESS, "<", "/concurrent/", "/threading.py", "/contextlib.py")


class Execution:
    """Runs cases of ops in this process; keeps the thread in which backward passes run.

    On a GPU, autograd runs backward in a thread of its own, which does not see the caller's context variables, Triton's
    allocator among them.  So it does here.
    """

    def __init__(
        self,
        surroundings: Callable[[], AbstractContextManager[Any]],
        on_backward_thread: Callable[[], object] = lambda: None,
        *,
        seen: ObservedLaunches = NOTHING_SEEN,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """Without `elsewhere` the library gets the very tensors that were made, on the CPU."""
        self._surroundings = surroundings
        self._seen = seen
        self._elsewhere = elsewhere
        self._writers: dict[str, Writer] = {}
        self._backward_thread = ThreadPoolExecutor(1, "autograd-device", on_backward_thread)
        self._phase = "inputs"
        self.seconds: dict[str, float] = {}

    def run(self, op: Op, case: Case) -> tuple[Ending, tuple[Result, ...]]:
        """How the case ended, and its results where it came so far."""
        self.seconds = {}
        return self._to_an_end(op, lambda: self._judged(op, case), ())

    def run_beside(self, op: Op, wish: PairedRunRequest) -> tuple[Ending, tuple[Sketch, ...]]:
        """How the case ended, and what of it another run is compared with, where it came so far."""
        self.seconds = {}
        return self._to_an_end(op, lambda: self._sketched(op, wish), ())

    def run_again(self, op: Op, case: Case) -> tuple[Ending, Mapping[str, str]]:
        """How the case ends when it is computed once more, compared with nothing: digests of results by name.

        Its seconds are added to those of the run before.
        """
        return self._to_an_end(op, lambda: self._digested(op, case), {})

    def run_for_bits(self, op: Op, case: Case) -> tuple[Ending, Mapping[str, tuple[str, Writer]]]:
        """As `run_again`: digests by which NaNs with other bits differ too, and who stored each result."""
        return self._to_an_end(op, lambda: self._bits(op, case), {})

    def _to_an_end(self, op: Op, work: Callable[[], T], otherwise: T) -> tuple[Ending, T]:
        try:
            return Completed(), work()
        except CannotExecute as error:
            return _unsupported(error, error), otherwise
        except MemoryError as error:
            return OutOfMemory(limit_bytes=0, message=str(error) or "MemoryError"), otherwise
        except Exception as error:  # noqa: BLE001 - the library's, Triton's or the suite's: becomes the run's ending
            return _ending(op, error, "inputs" if isinstance(error, SuiteError) else self._phase), otherwise

    def _judged(self, op: Op, case: Case) -> tuple[Result, ...]:
        computed = self._compute(op, case)
        if case.scale is Scale.GIANT:
            return ()
        return self._compared(op, case, computed, is_shared=self._seen.is_compared(case))

    def _compared(self, op: Op, case: Case, computed: "_Computed", *, is_shared: bool) -> tuple[Result, ...]:
        """The results against their definition, with no more random rounding than it takes to call them right.

        Where other runs are compared with this one, with as much as their comparison takes.
        """
        with self._timed("reference"), plain_torch():
            inputs, cotangents = computed.inputs, computed.cotangents
            defining = partial(reference, op, case, cotangents=cotangents)
            truth = arrays(defining(inputs, dtype=torch.float64))
            blurred = None
            if case.values is ValueDistribution.SPOILED and holds_infinity(inputs):
                blurred = arrays(defining(unknown(inputs), dtype=torch.float64))
            defined = _Defined(
                truth={name: Truth.of(values) for name, values in truth.items()},
                blurred=blurred,
                eager=cache(lambda: arrays(defining(inputs, dtype=TORCH_DTYPES[case.dtype]))),
                sketch_seed=case.seed if is_shared else None,
            )
        *samplings, last = (USUALLY, IN_DOUBT) if is_shared else (BARE, UNROUNDED, USUALLY, IN_DOUBT)
        for sampling in samplings:
            facts = self._sampled(op, case, computed, defined, sampling)
            if sampling.settles(facts):
                return facts
        return self._sampled(op, case, computed, defined, last)

    def _sampled(
        self, op: Op, case: Case, computed: "_Computed", defined: "_Defined", sampling: Sampling
    ) -> tuple[Result, ...]:
        with self._timed("reference"), plain_torch():
            expected = self._expect(op, case, computed, defined, sampling)
        with self._timed("compare"), plain_torch():
            return self._compare(
                op,
                computed.results,
                expected,
                Noted(sketch_seed=defined.sketch_seed, where=sampling.may_blame),
            )

    def _sketched(self, op: Op, wish: PairedRunRequest) -> tuple[Sketch, ...]:
        """Without a reference: what rounding explains follows from inputs and definition, which both runs share.

        Only the precision of products is the kernels' own.  Where it differs, the run makes its own tolerances.
        """
        case = wish.case
        computed = self._compute(op, case)
        if case.scale is Scale.GIANT:
            return ()
        if product_epsilon(self._seen.dot_precisions()) != product_epsilon(wish.dot_precisions):
            return tuple(map(Sketch.of, self._compared(op, case, computed, is_shared=True)))
        with self._timed("compare"), plain_torch():
            return tuple(sketch(name, value, seed=case.seed) for name, value in computed.results.items())

    def _digested(self, op: Op, case: Case) -> dict[str, str]:
        computed = self._compute(op, case)
        with self._timed("compare"), plain_torch():
            return digests(computed.results)

    def _bits(self, op: Op, case: Case) -> dict[str, tuple[str, Writer]]:
        computed = self._compute(op, case)
        with self._timed("compare"), plain_torch():
            found = digests(computed.results, nans_are_alike=False)
            return {name: (digest, self._writers[name]) for name, digest in found.items()}

    def _compute(self, op: Op, case: Case) -> "_Computed":
        """Forward and backward through the library."""
        is_giant = case.scale is Scale.GIANT
        if is_giant and self._elsewhere:
            raise CannotExecute("a giant case, of which a few programs run,")
        surroundings = SparseMemory if is_giant else self._surroundings
        lent = self._lent if self._elsewhere else _itself
        kept = _itself if is_giant or self._elsewhere else _kept
        with self._timed("inputs"), plain_torch():
            made = make_inputs(op, case)
            kept_inputs = {name: None if value is None else kept(value) for name, value in made.items()}
            inputs = {name: None if value is None else lent(value) for name, value in made.items()}
            seed_globals(case)
        with self._timed("forward"), surroundings():
            outputs = named(op.call(**wanted(op.call, inputs, op.settings(case))))
        with self._timed("inputs"), plain_torch():
            made_cotangents = make_cotangents(case, outputs)
            kept_cotangents = {name: kept(value) for name, value in made_cotangents.items()}
            cotangents = {name: lent(value) for name, value in made_cotangents.items()}
        leaves = {name: value for name, value in inputs.items() if value is not None and value.requires_grad}
        with self._timed("backward"):
            work = partial(self._backward, surroundings, outputs, leaves, cotangents)
            gradients = work() if self._elsewhere else self._backward_thread.submit(work).result()
        results = {**outputs, **gradients}
        with self._timed("transfer"):
            self._writers = {name: self._seen.writer_of(value) for name, value in results.items()}
            results = {name: self._fetched(value) for name, value in results.items()}
        return _Computed(inputs=kept_inputs, cotangents=kept_cotangents, results=results)

    def _lent(self, values: torch.Tensor) -> torch.Tensor:
        assert self._elsewhere
        return self._elsewhere.lend(values)

    def _fetched(self, values: torch.Tensor) -> torch.Tensor:
        return self._elsewhere.fetch(values) if self._elsewhere else values

    def _backward(
        self,
        surroundings: Callable[[], AbstractContextManager[Any]],
        outputs: Tensors,
        leaves: Tensors,
        cotangents: Tensors,
    ) -> Tensors:
        differentiable = {name: output for name, output in outputs.items() if output.requires_grad}
        if not leaves or not differentiable:
            return {}
        with surroundings():
            return gradients(differentiable, leaves, cotangents)

    def _expect(
        self, op: Op, case: Case, computed: "_Computed", defined: "_Defined", sampling: Sampling
    ) -> dict[str, Expected]:
        """The truth, the error of the eager baseline, and the error that random rounding of the truth shows."""
        limits = torch.finfo(TORCH_DTYPES[case.dtype])
        spacing = (
            limits.smallest_normal * limits.eps if case.dtype is DType.FP16 else 0.0
        )  # elsewhere far below anything
        products = product_epsilon(self._seen.dot_precisions())
        rounded: list[Mapping[str, Array]] = []
        largest = max((truth.values.size for truth in defined.truth.values()), default=0)
        may_overflow = False
        for sample in range(sampling.runs(largest)):
            seed = JITTER_SEEDS * case.seed + sample
            with Jitter(limits.eps, seed, products=products, spacing=spacing, terms=sampling.moves_terms) as jitter:
                jitter.watches_size = not sample and (
                    case.dtype is DType.FP16 or case.values is ValueDistribution.LARGE
                )
                moved = reference(op, case, computed.inputs, computed.cotangents, torch.float64)
            rounded.append(arrays(moved))
            may_overflow |= jitter.largest * HEADROOM > limits.max
        eager = defined.eager() if sampling.has_baseline else None
        return {
            name: Expected(
                role=Role.GRADIENT if name.startswith("d:") else Role.OUTPUT,
                truth=truth,
                in_range=_everywhere(
                    None if eager is None else np.isfinite(eager[name]),
                    None if defined.blurred is None else np.isfinite(defined.blurred[name]),
                    beside_spoiled(op, case, name),
                ),
                may_overflow=may_overflow,
                baseline=NO_ERROR if eager is None else error_of([eager[name]], truth),
                rounding=sampling.error([one[name] for one in rounded], truth),
                samples=len(rounded),
                judges_noise=sampling.judges_noise,
            )
            for name, truth in defined.truth.items()
        }

    def _compare(self, op: Op, results: Tensors, expected: Mapping[str, Expected], noted: Noted) -> tuple[Result, ...]:
        if set(results) != set(expected):
            raise ValueError(
                f"the op has {sorted(results)} and its reference {sorted(expected)}: they must have the same gradients"
            )
        facts: list[Result] = []
        for name, value in results.items():
            want = expected[name]
            tolerance = tolerance_of(want, value.dtype, op.slack)
            facts.append(compare(name, value, want, tolerance, replace(noted, writer=self._writers[name])))
        return tuple(facts)

    @contextmanager
    def _timed(self, part: str) -> Generator[None]:
        """Account for the time, and remember what the case was at if it ends there."""
        self._phase = part
        flight_recorder.phase(part)
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began


@dataclass(frozen=True, slots=True, kw_only=True)
class _Defined:
    """What the op's definition makes of a case."""

    truth: Mapping[str, Truth]
    blurred: Mapping[str, Array] | None
    """The same with NaN in the place of infinity, of which definition and kernel make a number each in its own way.

    None where there is no infinity."""
    eager: Callable[[], Mapping[str, Array]]
    """In the case's own type; computed when it is first asked for."""
    sketch_seed: int | None
    """What results are sketched by; None where no other run is compared with this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Computed:
    """What the library was given, as it was before, and what it made of it."""

    inputs: Mapping[str, torch.Tensor | None]
    cotangents: Tensors
    results: Tensors


def plain_torch() -> AbstractContextManager[None]:
    """Torch without the modes that stand between it and the library: what follows is the harness's own work."""
    return torch._C.DisableTorchFunction()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - no public name in torch 2.13


def _everywhere(*masks: Array | None) -> Array | None:
    """Where all of these hold; None where they hold everywhere."""
    held = [mask for mask in masks if mask is not None and not mask.all()]
    return np.logical_and.reduce(held) if held else None


def _kept(value: torch.Tensor) -> torch.Tensor:
    """A copy for the reference: libraries overwrite inputs and incoming gradients, to save memory."""
    return value.detach().clone()


def _itself(value: torch.Tensor) -> torch.Tensor:
    """In the place of `_kept` where nothing is compared."""
    return value


def _ending(op: Op, error: Exception, phase: str) -> Ending:
    kind = type(error).__name__
    message = str(error)
    if missing := MISSING_OPERATOR.match(message):
        return _unsupported(CannotExecute(f"{missing[1]} on the CPU"), error)
    if kind in op.refuses and phase in {"forward", "backward"}:
        return Refused(message=f"{kind}: {message}")
    if isinstance(error, torch.OutOfMemoryError):  # of the GPU's memory
        return OutOfMemory(limit_bytes=0, message=message.splitlines()[0])
    if isinstance(error, RuntimeError) and ("can't allocate memory" in message or "not enough memory" in message):
        return OutOfMemory(limit_bytes=0, message=message.splitlines()[0])
    text = "".join(traceback.format_exception(error)).splitlines()[-TRACEBACK_LINES:]
    return Raised(kind=kind, message=message, source=_source(error), phase=phase, traceback="\n".join(text))


def _unsupported(missing: CannotExecute, error: Exception) -> Unsupported:
    """What torch cannot do in the place of a kernel; what a kernel contains, the engine knows better."""
    return Unsupported(what=missing.what, kernel="", source=_source(error), triton_version=version("triton"))


def _source(error: Exception) -> Source | None:
    """The innermost frame outside torch, Triton and the harness."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not any(part in frame.filename for part in NOT_THE_LIBRARY)]
    return Source(file=outside[-1].filename, line=outside[-1].lineno or 0) if outside else None
