"""How a case is executed, whatever it computes: exceptions become endings, phases are timed.

`harness.execution.execution` executes ops.  `harness.repro_runtime.engine` executes reproducer files.
"""

import inspect
import os
import re
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

import harness
from harness.engines.torch.captured_graphs import abandon_capture
from harness.errors import CannotExecute, StoreError, SuiteError, disk_problem
from harness.execution import flight_recorder
from harness.execution.call_contexts import CallContexts
from harness.execution.exception_text import cause_of, text_of
from harness.execution.execution_hooks import NO_LAUNCHES, ObservedLaunches
from harness.execution.missing_parts import missing_part
from harness.execution.release_signatures import unfitting_call
from harness.model.case import Case, GradMode
from harness.model.op import Op
from harness.model.paired_run import PairedRunRequest, Sketch
from harness.model.run import (
    Completed,
    Ending,
    FormMismatch,
    GpuJudgement,
    NanResult,
    OutOfMemory,
    Raised,
    Refused,
    Result,
    Source,
    Unsupported,
)
from harness.model.triton_errors import UNSUPPORTED_TYPE

T = TypeVar("T")
LibraryContext = Callable[[], AbstractContextManager[Any]]
"""Makes the context manager that an engine holds around every call of the library, on any thread."""

TRACEBACK_LINES = 30
MISSING_OPERATOR = re.compile(r"Could not run '([\w:.]+)' with arguments from the")
"""The message of torch 2.13 for an operator that it has for CUDA alone.

The library does not refuse such a case: the virtual GPU cannot execute it.
"""
HARNESS = str(Path(harness.__file__).parent)
COMPILERS = ("/triton/", "/torch/_dynamo/", "/torch/_inductor/")
NOT_THE_LIBRARY = ("/torch/", "/triton/", HARNESS, "<", "/concurrent/", "/threading.py", "/contextlib.py")


class CaseExecution(ABC):
    """Runs cases in this process, one after another."""

    def __init__(
        self,
        library_context: LibraryContext,
        on_new_thread: Callable[[], object] = lambda: None,
        *,
        launches: ObservedLaunches = NO_LAUNCHES,
    ) -> None:
        """`on_new_thread` is called once in each thread that the execution starts, before anything else."""
        self._library_context = library_context
        self._launches = launches
        self._calls = CallContexts(on_new_thread)
        self._phase = "inputs"
        self.seconds: dict[str, float] = {}
        """Wall-clock seconds of the latest case by phase: `inputs`, `forward`, `backward`, `reference`, `compare`, …"""
        self.notes: list[str] = []
        """What the op of the latest `run` told Hypothesis's `note`."""
        self.unasked: tuple[str, ...] = ()
        """The functions of `Case.picked` that the latest `run` did not call."""
        self.mismatches: tuple[FormMismatch, ...] = ()
        """The results of the latest `run` whose form differs from the definition's."""
        self.is_undefined = False
        """True if the op of the latest `run` has no definition that could be computed."""
        self.nans: tuple[NanResult, ...] = ()
        """The results of the latest `run` that hold NaN, if it is undefined."""
        self.judged_on_gpu: GpuJudgement | None = None
        """How the GPU judged the latest `run`; None if the CPU alone did."""

    def run(self, op: Op, case: Case) -> tuple[Ending, tuple[Result, ...]]:
        """Return how the case ended, and its results; none unless it completed.  `mismatches` has the other ones."""
        self.seconds = {}
        self.notes = []
        self.unasked = ()
        self.mismatches = ()
        self.is_undefined, self.nans = False, ()
        self.judged_on_gpu = None
        return self._ended(op, lambda: self._results(op, case), ())

    def run_paired(self, op: Op, request: PairedRunRequest) -> tuple[Ending, tuple[Sketch, ...]]:
        """Return how a paired run ended, and what its comparison needs of the results; nothing unless it completed."""
        self.seconds = {}
        return self._ended(op, lambda: self._sketches(op, request), ())

    def run_again(self, op: Op, case: Case) -> tuple[Ending, Mapping[str, str]]:
        """Run the case once more without a reference; return how it ended, and digests of results by name.

        Its seconds are added to those of the run before.
        """
        return self._ended(op, lambda: self._digests(op, case), {})

    def run_unread(self, op: Op, case: Case) -> Ending:
        """Run the case as `run_again` does for what its calls leave or launch, and return how it ended."""
        return self._ended(op, lambda: self._call(op, case), None)[0]

    @abstractmethod
    def _results(self, op: Op, case: Case) -> tuple[Result, ...]:
        """Compute the case and compare it with its reference."""

    @abstractmethod
    def _sketches(self, op: Op, request: PairedRunRequest) -> tuple[Sketch, ...]:
        """Compute the requested case, and sketch its results."""

    @abstractmethod
    def _call(self, op: Op, case: Case) -> None:
        """Compute the case, and drop its results."""

    @abstractmethod
    def _digests(self, op: Op, case: Case) -> dict[str, str]:
        """Compute the case, and hash the bytes of its results."""

    def _ended(self, op: Op, work: Callable[[], T], nothing: T) -> tuple[Ending, T]:
        """Do the work; return how it ended, with `nothing` in the place of its value if it raised."""
        try:
            return Completed(), work()
        except CannotExecute as error:
            return _unsupported(error, error), nothing
        except MemoryError as error:
            return OutOfMemory(limit_bytes=0, message=str(error) or "MemoryError"), nothing
        except Exception as error:
            if problem := disk_problem(error):  # of this machine: no library is to blame
                raise StoreError(problem) from error
            return _ending(op, error, "inputs" if isinstance(error, SuiteError) else self._phase), nothing
        finally:
            abandon_capture()

    @contextmanager
    def _timed(self, phase: str) -> Generator[None]:
        """Add up the seconds of the phase.  An exception leaves `_phase` as it is, for the ending to name."""
        self._phase = phase
        flight_recorder.phase(phase)
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - began


class ExecutionFactory(Protocol):
    """Makes the execution of an engine."""

    def __call__(
        self,
        library_context: LibraryContext,
        on_new_thread: Callable[[], object],
        *,
        launches: ObservedLaunches,
    ) -> CaseExecution:
        """Return an execution with this context, for an engine that observes these launches."""
        ...


def autograd_mode(case: Case) -> AbstractContextManager[object]:
    """Return the context of autograd in which a case calls its op."""
    match case.grad_mode:
        case GradMode.ENABLED:
            return nullcontext()
        case GradMode.NO_GRAD:
            return torch.no_grad()


def _ending(op: Op, error: Exception, phase: str) -> Ending:
    kind = type(error).__name__
    message = str(error)
    if operator := MISSING_OPERATOR.match(message):
        return _unsupported(CannotExecute(f"{operator[1]} on the CPU"), error)
    if part := missing_part(error):
        return _unsupported(CannotExecute(part), error)
    if op.requires and (call := unfitting_call(error)):
        return _unsupported(CannotExecute(call), error)
    if (ending := ending_by_text(error)) is not None:
        return ending
    if kind in op.refuses and phase in {"forward", "backward"}:
        return Refused(message=f"{kind}: {message}")
    text = "".join(traceback.format_exception(error)).splitlines()[-TRACEBACK_LINES:]
    return Raised(
        kind=kind,
        message=text_of(error),
        source=source_of(error),
        phase=phase,
        traceback="\n".join(text),
        cause=cause_of(error),
        in_op=phase == "forward" and _is_of_op(op, error),
    )


def ending_by_text(error: Exception) -> Refused | OutOfMemory | None:
    """Return the ending of a case by an error whose text or class tells it from others; None for any other error."""
    message = str(error)
    if unsupported := UNSUPPORTED_TYPE.search(message):
        return Refused(message=f"{type(error).__name__}: {unsupported[0]}")
    # The CPU's allocator raises a plain RuntimeError.
    is_of_cpu = isinstance(error, RuntimeError) and (
        "can't allocate memory" in message or "not enough memory" in message
    )
    if isinstance(error, torch.OutOfMemoryError) or is_of_cpu:
        return OutOfMemory(limit_bytes=0, message=message.splitlines()[0])
    return None


def _is_of_op(op: Op, error: Exception) -> bool:
    """Return True if the op's own function raised the error.  Its assertions judge what the library returned."""
    if isinstance(error, AssertionError):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    files = [frame.f_code.co_filename for frame in frames]
    if any(part in file for part in COMPILERS for file in files):
        return False
    outside = [frame for frame, file in zip(frames, files, strict=True) if not _is_passed(file)]
    return bool(outside) and outside[-1].f_code is getattr(inspect.unwrap(op.call), "__code__", None)


def _unsupported(reason: CannotExecute, error: Exception) -> Unsupported:
    """Return the ending for something outside kernels, which the engine reports itself: torch on the CPU, imports."""
    return Unsupported(what=reason.what, kernel="", source=source_of(error), triton_version=version("triton"))


def source_of(error: Exception) -> Source | None:
    """Return the innermost frame outside torch, Triton and the harness."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not _is_passed(frame.filename)]
    return Source(file=outside[-1].filename, line=outside[-1].lineno or 0) if outside else None


def calling_line() -> Source | None:
    """Return the innermost line of this thread outside torch, Triton and the harness."""
    frame, inductor = inspect.currentframe(), _inductor_folder()
    while frame is not None and _is_passed_by(frame.f_code.co_filename, inductor):
        frame = frame.f_back
    return Source(file=frame.f_code.co_filename, line=frame.f_lineno) if frame else None


def _is_passed(file: str) -> bool:
    return _is_passed_by(file, _inductor_folder())


def _inductor_folder() -> str:
    # Inductor names what it generates by digests, which differ between sizes.
    return os.environ.get("TORCHINDUCTOR_CACHE_DIR", "<")


@lru_cache(maxsize=4096)
def _is_passed_by(file: str, inductor: str) -> bool:
    return any(part in file for part in (*NOT_THE_LIBRARY, inductor))
