"""One case from inputs to facts: forward, backward, two references, comparison.

The same for every engine; what an engine adds (who answers for the GPU, what memory saw) it wraps around `Execution`.
"""

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import torch

from harness.errors import SuiteError
from harness.model.case import Case
from harness.model.op import Op
from harness.model.run import Completed, Ending, OutOfMemory, Raised, Refused, Result, Role, Source
from harness.ops.compare import Expected, Writer, baseline_errors, compare
from harness.ops.inputs import TORCH_DTYPES, detached, make_cotangents, make_inputs
from harness.ops.parameters import wanted

Tensors = dict[str, torch.Tensor]
T = TypeVar("T")

BASELINES = 3
REPEATED_BELOW = 4096
"""Elements from which on one baseline run is enough: its errors are no matter of luck any more."""
MOVE_ULPS = 4.0
TRACEBACK_LINES = 30
NOT_THE_LIBRARY = ("/torch/", "/triton/", "/harness/", "<", "/concurrent/", "/threading.py", "/contextlib.py")


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
        except Exception as error:  # the library's, Triton's or the suite's: becomes the run's ending
            return _ending(op, error, "inputs" if isinstance(error, SuiteError) else phase), ()
        return Completed(), results

    def _backward(self, outputs: Tensors, leaves: Tensors, cotangents: Tensors) -> Tensors:
        differentiable = {name: output for name, output in outputs.items() if output.requires_grad}
        if not leaves or not differentiable:
            return {}
        with self._surroundings():
            made = torch.autograd.grad(
                tuple(differentiable.values()),
                tuple(leaves.values()),
                tuple(cotangents[name] for name in differentiable),
                allow_unused=True,
            )
        return {
            f"d:{name}": gradient if gradient is not None else torch.zeros_like(leaves[name])
            for name, gradient in zip(leaves, made, strict=True)
        }

    def _expect(
        self, op: Op, case: Case, inputs: Mapping[str, torch.Tensor | None], cotangents: Tensors
    ) -> dict[str, Expected]:
        truth = reference(op, case, inputs, cotangents, torch.float64)
        pairs: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {name: [] for name in truth}
        small = max((value.numel() for value in truth.values()), default=0) < REPEATED_BELOW
        for index in range(BASELINES if small else 1):
            moved, moved_cotangents = (inputs, cotangents) if not index else _moved(case, index, inputs, cotangents)
            exact = truth if not index else reference(op, case, moved, moved_cotangents, torch.float64)
            eager = reference(op, case, moved, moved_cotangents, TORCH_DTYPES[case.dtype])
            for name, runs in pairs.items():
                runs.append((exact[name], eager[name]))
        errors = baseline_errors(pairs)
        return {
            name: Expected(Role.GRADIENT if name.startswith("d:") else Role.OUTPUT, value, *errors[name])
            for name, value in truth.items()
        }

    def _compare(self, results: Tensors, expected: Mapping[str, Expected], op: Op, case: Case) -> tuple[Result, ...]:
        if set(results) != set(expected):
            raise ValueError(
                f"the op returned {sorted(results)} and its reference {sorted(expected)}: they must return the same"
            )
        facts: list[Result] = []
        for name, value in results.items():
            want = expected[name]
            if tuple(value.shape) != tuple(want.truth.shape):
                raise ValueError(f"{name} has shape {tuple(value.shape)}, its reference {tuple(want.truth.shape)}")
            facts.append(compare(name, value, want, op.slack, case.seed, self._writer_of(value)))
        return tuple(facts)

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began


def plain_torch() -> AbstractContextManager[None]:
    """Torch without the modes that stand between it and the library under test: what follows is the harness's own work."""
    return torch._C.DisableTorchFunction()  # noqa: SLF001 - torch 2.0 to 2.13 have no public name for it


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
    differentiable = {name: output for name, output in outputs.items() if output.requires_grad}
    results = dict(outputs)
    if leaves and differentiable:
        made = torch.autograd.grad(
            tuple(differentiable.values()),
            tuple(leaves.values()),
            tuple(detached(cotangents[name], output.dtype) for name, output in differentiable.items()),
            allow_unused=True,
        )
        for name, gradient in zip(leaves, made, strict=True):
            results[f"d:{name}"] = torch.zeros_like(leaves[name]) if gradient is None else gradient
    return {name: value.detach() for name, value in results.items()}


def _moved(
    case: Case, index: int, inputs: Mapping[str, torch.Tensor | None], cotangents: Tensors
) -> tuple[dict[str, torch.Tensor | None], Tensors]:
    """Inputs moved by a few units in the last place, cotangents redrawn: as likely a case as the case itself."""
    generator = torch.Generator().manual_seed(1_000_003 * index + case.seed)

    def move(value: torch.Tensor) -> torch.Tensor:
        if not value.is_floating_point():
            return value
        noise = torch.rand(value.shape, generator=generator) * 2 - 1
        wide = value.detach().to(torch.float64)
        return (wide * (1 + MOVE_ULPS * torch.finfo(value.dtype).eps * noise)).to(value.dtype)

    def redraw(value: torch.Tensor) -> torch.Tensor:
        return value.reshape(-1)[torch.randperm(value.numel(), generator=generator)].reshape(value.shape)

    return (
        {name: None if value is None else move(value) for name, value in inputs.items()},
        {name: redraw(value) for name, value in cotangents.items()},
    )


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
