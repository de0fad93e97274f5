"""The virtual GPU for reproducers.  Only child processes import this."""

import importlib.util
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from harness.engines.torch.inductor.inductor_emulation import EMULATION
from harness.engines.torch.torch_seam import RUN, plain_torch
from harness.engines.virtual.engine import VirtualEngine
from harness.errors import SuiteError
from harness.execution.case_execution import CaseExecution, LibraryContext
from harness.execution.compare import Noted, compare, digests, sketch
from harness.execution.execution_hooks import NO_LAUNCHES, ObservedLaunches
from harness.execution.oversized_tensors import SparseMemory
from harness.execution.poison import count_poison
from harness.execution.result_forms import Tensors, form_of
from harness.execution.row_trials import Allowance, TorchSums
from harness.execution.tolerance import NO_ERROR, Expected, Tolerance, Truth, tolerance_of
from harness.model.case import Case, Scale
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.paired_run import PairedRunRequest, Sketch
from harness.model.row_check import RowCheck, RowDifference
from harness.model.run import Completed, Ending, FormMismatch, Measure, Result, ResultForm, Role, Run
from harness.patches import PATCHES
from harness.repro_runtime.other_rows import OtherRows
from harness.repro_runtime.request import FILE

NOTHING_WRONG = Measure(ratio=0.0, index=(), got=0.0, expected=0.0)


class FileEngine(VirtualEngine):
    """Runs the file that a case names instead of an op."""

    _file_execution: "FileExecution"

    def __init__(self) -> None:
        super().__init__(make_execution=self._make_execution)

    def emulate(self, device: DeviceProfile) -> None:
        """Emulate the device, and run `torch.autograd` in its own thread, whoever calls it."""
        super().emulate(device)
        for name in ("backward", "grad"):
            on_thread = self._file_execution.on_backward_thread(getattr(torch.autograd, name))
            PATCHES.replace(torch.autograd, name, on_thread, why="it runs in its own thread", releases=RUN)

    def run(self, op: Op, case: Case) -> Run:
        """Run the file, and its call with other rows if it has one."""
        run = super().run(op, case)
        if self._file_execution.other_rows is None or not isinstance(run.ending, Completed):
            return run
        with self._state_for(case) as launches:
            ending, rows = self._file_execution.run_other_rows(op, case)
            ending = launches.ending(ending, self._chooser.failed)
        return replace(run, rows=rows(ending))

    def _make_execution(
        self,
        library_context: LibraryContext,
        on_new_thread: Callable[[], object],
        *,
        launches: ObservedLaunches,
    ) -> "FileExecution":
        self._file_execution = FileExecution(library_context, on_new_thread, launches=launches)
        return self._file_execution


class FileExecution(CaseExecution):
    """Calls `run()` of a file and compares with `truth()`; results without a reference count as right."""

    def __init__(
        self,
        library_context: LibraryContext,
        on_new_thread: Callable[[], object] = lambda: None,
        *,
        launches: ObservedLaunches = NO_LAUNCHES,
    ) -> None:
        super().__init__(library_context, on_new_thread, launches=launches)
        self._scale = Scale.USUAL
        self._thread = threading.local()
        self.other_rows: OtherRows | None = None
        """What the latest file says of its call with other rows, if it has one."""
        self._before: Tensors = {}
        """The results of its first call."""

    def run_other_rows(self, op: Op, case: Case) -> tuple[Ending, Callable[[Ending], RowCheck]]:
        """Call the latest file with other rows; return how that ended, and the row check of a final ending."""
        rows = self.other_rows
        assert rows is not None, "the file has no such call"
        sums: dict[str, None] = {}

        def work() -> tuple[RowDifference, ...]:
            around = partial(TorchSums, sums)
            file, after = self._run_file(case, lambda file: file.run(other_rows=True), around)
            with self._timed("compare"), plain_torch():
                allowed: Mapping[str, tuple[float, float]] = getattr(file, "TOLERANCE", {})
                allowances = {name: _allowance(self._before[name], None, allowed.get(name)) for name in rows.kept}
                return rows.differences(self._before, after, allowances)

        ending, differences = self._ended(op, work, ())
        return ending, lambda final: rows.check(final, differences, tuple(sums))

    def on_backward_thread(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function to run in autograd's thread, under the caller's dispatch modes."""

        def called(*args: Any, **kwargs: Any) -> Any:
            self._thread.is_autograd = True
            with nullcontext() if self._scale is Scale.OVERSIZED else self._library_context():
                return function(*args, **kwargs)

        def calling(*args: Any, **kwargs: Any) -> Any:
            # AOTAutograd traces the backward pass of a compiled program by the same function, in its own thread.
            if EMULATION.is_in_program or getattr(self._thread, "is_autograd", False):
                return function(*args, **kwargs)
            return self._calls.in_backward_thread(partial(called, *args, **kwargs))

        return calling

    def _results(self, op: Op, case: Case) -> tuple[Result, ...]:
        del op
        file, results = self._run_file(case)
        self.other_rows, self._before = OtherRows.of(file), results
        if case.scale is Scale.OVERSIZED:
            return ()
        with self._timed("reference"), plain_torch():
            truth: Tensors = file.truth() if hasattr(file, "truth") else {}
            self.mismatches = _mismatches(results, getattr(file, "EXPECTED", {}))
        with self._timed("compare"), plain_torch():
            allowed: Mapping[str, tuple[float, float]] = getattr(file, "TOLERANCE", {})
            writer_of = self._launches.writer_of
            return tuple(
                replace(_fact(name, got, truth.get(name), allowed.get(name), case.seed), writer=writer_of(got))
                for name, got in results.items()
            )

    def _call(self, op: Op, case: Case) -> None:
        del op
        self._run_file(case)

    def _digests(self, op: Op, case: Case) -> dict[str, str]:
        del op
        return digests(self._run_file(case)[1])

    def _sketches(self, op: Op, request: PairedRunRequest) -> tuple[Sketch, ...]:
        del op
        results = self._run_file(request.case)[1]
        return tuple(sketch(name, got, seed=request.case.seed) for name, got in results.items())

    def _run_file(
        self,
        case: Case,
        call: Callable[[ModuleType], Mapping[str, torch.Tensor | None] | None] = lambda file: file.run(),
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> tuple[ModuleType, Tensors]:
        self._scale = case.scale

        def run_file() -> tuple[ModuleType, Tensors]:
            with SparseMemory() if case.scale is Scale.OVERSIZED else self._library_context(), around():
                returned = call(file) or {}
                return file, {name: value for name, value in returned.items() if value is not None}

        with self._timed("forward"):
            # The main thread imports what the file imports, as it does for cases.
            with SparseMemory() if case.scale is Scale.OVERSIZED else self._library_context():
                file = load(Path(str(case.options[FILE])))
                if hasattr(file, "import_library"):
                    file.import_library()
            self._launches.on_imported()
            return self._calls.call(case.context, run_file)


def load(path: Path) -> ModuleType:
    """Import the file as a module; its `__main__` block does not run.

    Raises:
        SuiteError: it is not a Python file, or has no `run`.
    """
    spec = importlib.util.spec_from_file_location(f"watched_{path.stem}".replace("-", "_"), path)
    if spec is None or spec.loader is None:
        raise SuiteError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, "run", None)):
        raise SuiteError(f"{path} has no function `run` that returns results by name")
    return module


def _mismatches(
    results: Tensors, expected: Mapping[str, tuple[str, tuple[int, ...]] | None]
) -> tuple[FormMismatch, ...]:
    """Return the results whose form is not the expected one; `expected` has their element types and shapes by name."""
    forms = {name: form and ResultForm(kind=form[0], shape=form[1]) for name, form in expected.items()}
    got = {name: form_of(results[name]) if name in results else None for name in forms}
    return tuple(
        FormMismatch(name=name, got=got[name], expected=form) for name, form in forms.items() if got[name] != form
    )


def _fact(
    name: str, got: torch.Tensor, truth: torch.Tensor | None, allowed: Iterable[float] | None, seed: int
) -> Result:
    role = Role.GRADIENT if name.startswith("d:") else Role.OUTPUT
    if not got.is_floating_point():
        return _uncompared(name, got, role)
    allowance = _allowance(got, truth, allowed)
    fact = compare(name, got, allowance.expected, allowance.tolerance, Noted(sketch_seed=seed))
    return fact if truth is not None else replace(fact, nonfinite=int((~torch.isfinite(got)).sum()))


def _allowance(got: torch.Tensor, truth: torch.Tensor | None, allowed: Iterable[float] | None) -> Allowance:
    """Return what a result is near to, itself without a truth, and how near: `allowed` of the whole and of a row."""
    right = Truth.of((got if truth is None else truth).detach().to(torch.float64).numpy())
    expected = Expected(role=Role.OUTPUT, truth=right, baseline=NO_ERROR, rounding=NO_ERROR, samples=1)
    tolerance = tolerance_of(expected, got.dtype, 1.0) if allowed is None else _tolerance(right, *allowed)
    return Allowance(expected=expected, tolerance=tolerance)


def _tolerance(truth: Truth, whole: float, row: float) -> Tolerance:
    return Tolerance(whole=whole, per_tile=np.full_like(truth.size.per_tile, row))


def _uncompared(name: str, got: torch.Tensor, role: Role) -> Result:
    unwritten, first = count_poison(got)
    return Result(
        name=name,
        role=role,
        shape=tuple(got.shape),
        whole=NOTHING_WRONG,
        worst_tile=NOTHING_WRONG,
        unwritten=unwritten,
        first_unwritten=first,
        nonfinite=0,
        digest=digests({name: got})[name],
    )
