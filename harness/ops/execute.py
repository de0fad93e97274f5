"""One case from inputs to facts: forward, backward, two references, comparison.

The same for every engine; what an engine adds (who answers for the GPU, what memory saw) it wraps around `Execution`.
"""

import time
import traceback
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch

import harness
from harness.errors import SuiteError
from harness.model.case import Case
from harness.model.op import Op
from harness.model.run import Completed, Ending, OutOfMemory, Raised, Refused, Result, Role, Source
from harness.ops.compare import Expected, compare, error_of, samples
from harness.ops.inputs import TORCH_DTYPES, detached, make_cotangents, make_inputs
from harness.ops.jitter import Jitter
from harness.ops.parameters import wanted

Tensors = dict[str, torch.Tensor]

JITTER_SEEDS = 1009
TRACEBACK_LINES = 30
Writer = tuple[str, str] | None
"""The kernel and the argument through which a tensor was stored; None where no launch did."""
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
        writer_of: Callable[[torch.Tensor], Writer] = lambda _: None,
        on_backward_thread: Callable[[], object] = lambda: None,
    ) -> None:
        self._surroundings = surroundings
        self._writer_of = writer_of
        self._backward_thread = ThreadPoolExecutor(1, "autograd-device", on_backward_thread)
        self.seconds: dict[str, float] = {}

    def run(self, op: Op, case: Case) -> tuple[Ending, tuple[Result, ...]]:
        """How the case ended, and its results where it came so far."""
        self.seconds = {}
        phase = "inputs"
        try:
            with self._timed(phase), plain_torch():
                inputs = make_inputs(op, case)
            phase = "forward"
            with self._timed(phase), self._surroundings():
                outputs = _named(op.call(**wanted(op.call, inputs, case.dims)))
            phase = "inputs"
            with self._timed(phase), plain_torch():
                cotangents = make_cotangents(case, outputs)
            phase = "backward"
            leaves = {name: value for name, value in inputs.items() if value is not None and value.requires_grad}
            with self._timed(phase):
                gradients = self._backward_thread.submit(self._backward, outputs, leaves, cotangents).result()
            phase = "reference"
            with self._timed(phase), plain_torch():
                expected = self._expect(op, case, inputs, cotangents)
            phase = "compare"
            with self._timed(phase), plain_torch():
                results = self._compare({**outputs, **gradients}, expected, op, case)
        except MemoryError as error:
            return OutOfMemory(limit_bytes=0, message=str(error) or "MemoryError"), ()
        except Exception as error:  # noqa: BLE001 - the library's, Triton's or the suite's: becomes the run's ending
            return _ending(op, error, "inputs" if isinstance(error, SuiteError) else phase), ()
        return Completed(), results

    def _backward(self, outputs: Tensors, leaves: Tensors, cotangents: Tensors) -> Tensors:
        differentiable = {name: output for name, output in outputs.items() if output.requires_grad}
        if not leaves or not differentiable:
            return {}
        with self._surroundings():
            return _gradients(differentiable, leaves, cotangents)

    def _expect(
        self, op: Op, case: Case, inputs: Mapping[str, torch.Tensor | None], cotangents: Tensors
    ) -> dict[str, Expected]:
        """The truth, the error of the eager baseline, and the error that random rounding of the truth shows."""
        truth = reference(op, case, inputs, cotangents, torch.float64)
        eager = reference(op, case, inputs, cotangents, TORCH_DTYPES[case.dtype])
        epsilon = torch.finfo(TORCH_DTYPES[case.dtype]).eps
        rounded: list[Tensors] = []
        largest = max((value.numel() for value in truth.values()), default=0)
        for sample in range(samples(largest)):
            with Jitter(epsilon, seed=JITTER_SEEDS * case.seed + sample):
                rounded.append(reference(op, case, inputs, cotangents, torch.float64))
        return {
            name: Expected(
                role=Role.GRADIENT if name.startswith("d:") else Role.OUTPUT,
                truth=value,
                baseline=error_of([eager[name]], value),
                rounding=error_of([one[name] for one in rounded], value),
                samples=len(rounded),
            )
            for name, value in truth.items()
        }

    def _compare(self, results: Tensors, expected: Mapping[str, Expected], op: Op, case: Case) -> tuple[Result, ...]:
        if set(results) != set(expected):
            raise ValueError(
                f"the op has {sorted(results)} and its reference {sorted(expected)}: they must have the same gradients"
            )
        facts: list[Result] = []
        for name, value in results.items():
            want = expected[name]
            fact = compare(name, value, want, slack=op.slack, seed=case.seed)
            facts.append(replace(fact, writer=self._writer_of(value)))
        return tuple(facts)

    @contextmanager
    def _timed(self, part: str) -> Generator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began


def plain_torch() -> AbstractContextManager[None]:
    """Torch without the modes that stand between it and the library: what follows is the harness's own work."""
    return torch._C.DisableTorchFunction()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - no public name in torch 2.13


def reference(
    op: Op, case: Case, inputs: Mapping[str, torch.Tensor | None], cotangents: Tensors, dtype: torch.dtype
) -> Tensors:
    """Outputs and gradients of the op's definition in one type, from the case's rounded inputs."""
    copies = {
        name: None if value is None else detached(value, dtype if value.is_floating_point() else value.dtype)
        for name, value in inputs.items()
    }
    leaves = {name: copy.requires_grad_() for name, copy in copies.items() if copy is not None and op.inputs[name].grad}
    outputs = _named(op.reference(**wanted(op.reference, copies, case.dims)))
    _check_alike(cotangents, outputs)
    differentiable = {name: output for name, output in outputs.items() if output.requires_grad}
    results = dict(outputs)
    if leaves and differentiable:
        made = _gradients(
            differentiable,
            leaves,
            {name: detached(cotangents[name], output.dtype) for name, output in differentiable.items()},
        )
        results |= made
    return {name: value.detach() for name, value in results.items()}


def _check_alike(returned: Tensors, references: Tensors) -> None:
    """The op and its reference must return the same, in names and shapes; cotangents stand for what the op returned."""
    if set(returned) != set(references):
        raise ValueError(
            f"the op returned {sorted(returned)} and its reference {sorted(references)}: they must return the same"
        )
    for name, value in returned.items():
        if value.shape != references[name].shape:
            raise ValueError(f"{name} has shape {tuple(value.shape)}, its reference {tuple(references[name].shape)}")


def _gradients(outputs: Tensors, leaves: Tensors, cotangents: Tensors) -> Tensors:
    """`d:x` for each leaf x; zeros where no output depends on it."""
    made = torch.autograd.grad(
        tuple(outputs.values()), tuple(leaves.values()), tuple(cotangents[name] for name in outputs), allow_unused=True
    )
    found = cast("tuple[torch.Tensor | None, ...]", made)  # torch's stubs do not know allow_unused
    return {
        f"d:{name}": torch.zeros_like(leaves[name]) if gradient is None else gradient
        for name, gradient in zip(leaves, found, strict=True)
    }


def _named(outputs: Any) -> Tensors:
    """`y` for a single output; `y0`, `y1`, … for several, None among them left out."""
    if isinstance(outputs, torch.Tensor):
        return {"y": outputs}
    return {f"y{index}": output for index, output in enumerate(outputs) if output is not None}


def _ending(op: Op, error: Exception, phase: str) -> Ending:
    kind = type(error).__name__
    message = str(error)
    if kind in op.refuses and phase in {"forward", "backward"}:
        return Refused(message=f"{kind}: {message}")
    if isinstance(error, RuntimeError) and ("can't allocate memory" in message or "not enough memory" in message):
        return OutOfMemory(limit_bytes=0, message=message.splitlines()[0])
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not any(part in frame.filename for part in NOT_THE_LIBRARY)]
    source = Source(file=outside[-1].filename, line=outside[-1].lineno or 0) if outside else None
    text = "".join(traceback.format_exception(error)).splitlines()[-TRACEBACK_LINES:]
    return Raised(kind=kind, message=message, source=source, phase=phase, traceback="\n".join(text))
