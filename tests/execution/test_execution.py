"""The execution of one case from inputs to facts, and its endings."""

import random
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.errors import MissingPart
from harness.execution.execution import Execution
from harness.execution.execution_hooks import ObservedLaunches
from harness.execution.poison import FreshMemory
from harness.execution.row_trials import SeenRows
from harness.execution.tolerance import Expected
from harness.model.case import Case, DType, GradMode, Layout, ValueDistribution
from harness.model.op import Op
from harness.model.row_check import RowDifference
from harness.model.run import Completed, Ending, OutOfMemory, Raised, Refused, ResultForm, Role, Source, Unsupported
from harness.suite import beside
from tests.execution.ops_for_tests import COLUMNS, LAYER_NORM, RMS_NORM, ROWS, case, op, rms_norm_call

VARIABLE: ContextVar[str] = ContextVar("VARIABLE", default="not set")


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (found,) = (at for at, line in enumerate(lines, 1) if line.rstrip().endswith(f"# {text}"))
    return found


class Doubled(torch.autograd.Function):
    """Records in backward which value its thread sees."""

    seen: str = ""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        del ctx
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        del ctx
        Doubled.seen = VARIABLE.get()
        return grads[0] * 2


class Frugal(torch.autograd.Function):
    """Computes the right result, but overwrites its input and the incoming gradient to save memory."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x.clone())
        x.data.square_()
        return x.data.clone()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grads[0].data.mul_(2 * x)


class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        del ctx
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        del ctx, grads
        raise KeyError("no gradient")  # in backward


def ended(call: Callable[..., Any], reference: Callable[..., Any] = lambda x: x * 2) -> Ending:
    ending, results = Execution(nullcontext).run(op(call, reference, {"x": ROWS}), case())
    assert (results == ()) == (ending != Completed())
    return ending


def test_every_output_and_gradient_is_compared() -> None:
    ending, results = Execution(nullcontext).run(LAYER_NORM, case(absent=("b",)))
    assert ending == Completed()
    assert [(result.name, result.role, result.shape) for result in results] == [
        ("y", Role.OUTPUT, (5, 7)),
        ("d:x", Role.GRADIENT, (5, 7)),
        ("d:w", Role.GRADIENT, (7,)),
    ]


@pytest.mark.parametrize("dtype", [DType.FP32, DType.BF16, DType.FP16])
@pytest.mark.parametrize("values", list(ValueDistribution))
def test_integer_and_boolean_results_are_compared_exactly(dtype: DType, values: ValueDistribution) -> None:
    def definition(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        largest, at = x.max(-1)
        return largest, at, x > 0

    def off_by_one(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        largest, at, positive = definition(x)
        further, other = at.clone(), positive.clone()
        further[2], other[1, 1] = at[2] + 1, ~positive[1, 1]
        return largest, further, other

    def ratios(call: Callable[..., Any]) -> list[tuple[str, bool, bool]]:
        ending, results = Execution(nullcontext).run(
            op(call, definition, {"x": ROWS}),
            case(dtype=dtype, values=values, layouts={"grad": Layout.STRIDED}, seed=3),
        )
        assert ending == Completed()
        return [(one.name, one.whole.ratio > 1, one.worst_tile.ratio > 1) for one in results]

    right = [("y0", False, False), ("y1", False, False), ("y2", False, False), ("d:x", False, False)]
    assert ratios(definition) == right
    wrong = ratios(off_by_one)
    assert (wrong[0], wrong[3]) == (right[0], right[3])
    if values is ValueDistribution.NORMAL:
        assert wrong[1:3] == [("y1", True, True), ("y2", True, True)]


def imports_nothing_there(x: torch.Tensor) -> torch.Tensor:
    import no_such_kernels.norm  # pyright: ignore[reportMissingImports] - there is none

    return no_such_kernels.norm.run(x)


def reports_what_is_missing(x: torch.Tensor) -> torch.Tensor:
    try:
        return imports_nothing_there(x)
    except ImportError:
        raise RuntimeError("please install the kernels") from None


def falls_back(x: torch.Tensor) -> torch.Tensor:
    try:
        return imports_nothing_there(x)
    except ImportError:
        return fails(x)


def fails(x: torch.Tensor) -> torch.Tensor:
    raise RuntimeError(f"no way for {x.ndim} dims")


def calls_a_framework(x: torch.Tensor) -> torch.Tensor:
    del x
    raise MissingPart("transformers.Cache is called, but transformers is not installed: add --with transformers")


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (imports_nothing_there, "no_such_kernels, which is not installed"),
        (reports_what_is_missing, "no_such_kernels, which is not installed"),
        (calls_a_framework, "transformers.Cache is called, but transformers is not installed: add --with transformers"),
    ],
)
def test_a_case_that_lacks_an_optional_library_is_not_executed(call: Callable[..., Any], what: str) -> None:
    ending = ended(call)
    assert isinstance(ending, Unsupported)
    assert ending.what == what


def test_a_failure_of_what_a_library_does_instead_of_an_import_is_its_own() -> None:
    ending = ended(falls_back)
    assert isinstance(ending, Raised)
    assert ending.message == "no way for 2 dims"


def test_a_suite_that_imports_what_a_release_lacks_is_not_executed(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def call(x):\n    from torch.nn import no_such_norm\n", encoding="utf-8")
    ending = ended(beside(str(tmp_path / "suite.py"), "helper.py").call)
    assert isinstance(ending, Unsupported)
    assert ending.what == "torch.nn.no_such_norm, which is not in this release or not installed"


def test_a_library_that_lacks_a_module_of_its_own_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_kernels").mkdir()
    (tmp_path / "broken_kernels" / "__init__.py").write_text("import broken_kernels.gone", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    ending = ended(lambda x: __import__("broken_kernels"))  # noqa: ARG005 - raises
    assert isinstance(ending, Raised)
    assert ending.message == "No module named 'broken_kernels.gone'"


SILENT = """
def asserts(x):
    assert (
        x.shape[0]
        == 99
    )

def raises(x):
    raise KeyError

def calls(x):
    try:
        asserts(x)
    except AssertionError as error:
        raise RuntimeError("at 3:4:\\n  y = inner(x)") from error

def quotes(x):
    try:
        asserts(x)
    except AssertionError as error:
        raise RuntimeError(f"at 3:4:\\n  y = inner(x)\\n{error!r}") from None

def repeats(x):
    try:
        raise KeyError("no row 7")
    except KeyError as error:
        raise RuntimeError(f"at 3:4:\\n  y = inner(x)\\n{error}") from error
"""


@pytest.mark.parametrize(
    ("function", "message", "cause"),
    [
        ("asserts", "assert x.shape[0] == 99", ""),
        ("raises", "raise KeyError", ""),
        ("calls", "at 3:4:\n  y = inner(x)", "AssertionError: assert x.shape[0] == 99"),
        ("quotes", "at 3:4:\n  y = inner(x)\nAssertionError()", "AssertionError: assert x.shape[0] == 99"),
        ("repeats", "at 3:4:\n  y = inner(x)\n'no row 7'", ""),
    ],
)
def test_an_exception_that_hides_its_reason_gets_it(function: str, message: str, cause: str, tmp_path: Path) -> None:
    (tmp_path / "silent.py").write_text(SILENT, encoding="utf-8")
    ending = ended(getattr(beside(str(tmp_path / "suite.py"), "silent.py"), function))
    assert isinstance(ending, Raised)
    assert (ending.message, ending.cause) == (message, cause)


def test_unwritten_integers_are_counted() -> None:
    def call(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.empty(x.shape, dtype=torch.int32)
        y[1:] = 2
        return y, x * 2

    def definition(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full(x.shape, 2, dtype=torch.int32), x * 2

    _, results = Execution(FreshMemory).run(op(call, definition, {"x": ROWS}), case())
    assert [(one.name, one.unwritten, one.first_unwritten) for one in results] == [
        ("y0", 7, (0, 0)),
        ("y1", 0, None),
        ("d:x", 0, None),
    ]


GRADIENTS_OF: Mapping[tuple[str, ...], list[str]] = {
    (): ["y", "d:x", "d:w"],
    ("x",): ["y", "d:w"],
    ("w",): ["y", "d:x"],
    ("w", "x"): ["y"],
}


@pytest.mark.parametrize("frozen", GRADIENTS_OF, ids="-".join)
def test_exactly_the_wanted_gradients_are_compared(frozen: tuple[str, ...]) -> None:
    required: list[set[str]] = []

    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        required.append({name for name, given in (("x", x), ("w", w)) if given.requires_grad})
        return rms_norm_call(x, w)

    frozen_case = case(frozen=frozen)
    ending, results = Execution(nullcontext).run(replace(RMS_NORM, call=call), frozen_case)
    assert ending == Completed()
    assert [result.name for result in results] == GRADIENTS_OF[frozen]
    assert required == [{"x", "w"} - set(frozen)]


def test_no_grad_runs_the_op_forward_only() -> None:
    modes: list[tuple[bool, bool]] = []

    def call(x: torch.Tensor) -> torch.Tensor:
        modes.append((torch.is_grad_enabled(), x.requires_grad))
        return x * 2

    no_grad = case(grad_mode=GradMode.NO_GRAD)
    ending, results = Execution(nullcontext).run(op(call, lambda x: x * 2, {"x": ROWS}), no_grad)
    assert (ending, [result.name for result in results]) == (Completed(), ["y"])
    assert modes == [(False, True)]


def test_equal_cases_give_equal_facts() -> None:
    first, second = (Execution(nullcontext).run(RMS_NORM, case(seed=7)) for _ in range(2))
    assert first == second


def test_equal_cases_give_host_code_equal_random_numbers() -> None:
    drawn: list[tuple[float, ...]] = []

    def noisy(x: torch.Tensor) -> torch.Tensor:
        drawn.append((torch.rand(()).item(), random.random(), float(np.random.rand())))  # noqa: NPY002, S311
        return x * 2

    execution = Execution(nullcontext)
    for seed in (1, 1, 2):
        execution.run(op(noisy, lambda x: x * 2, {"x": ROWS}), case(seed=seed))
        torch.rand(3)  # what comes between
    first, second, third = drawn
    assert first == second
    assert all(one != other for one, other in zip(first, third, strict=True))


def test_backward_does_not_see_the_callers_context_variables() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        VARIABLE.set("set in forward")
        return Doubled.apply(x)

    assert ended(call) == Completed()
    assert Doubled.seen == "not set"


def test_the_library_context_holds_in_forward_and_backward() -> None:
    entered: list[str] = []

    @contextmanager
    def surroundings() -> Generator[None]:
        entered.append("in")
        yield
        entered.append("out")

    Execution(surroundings).run(LAYER_NORM, case())
    assert entered == ["in", "out", "in", "out"]


class Steps:
    """An observer that lists the steps that it sees."""

    def __init__(self) -> None:
        self.steps: list[object] = []

    def on_begin(self, case: Case, *, is_again: bool) -> None:
        self.steps.append(("begin", case.seed, is_again))

    def on_outputs(self, outputs: Mapping[str, torch.Tensor]) -> None:
        self.steps.append(("outputs", *outputs))

    def on_expected(self, op: Op, results: Mapping[str, torch.Tensor], expected: Mapping[str, Expected]) -> None:
        assert list(results) == list(expected)
        self.steps.append(("expected", op.name, *results))

    def on_rows(self, seen: SeenRows, differences: Mapping[str, RowDifference | None]) -> None:
        self.steps.append(("rows", seen.arrangement.change, *differences))


def test_an_observer_follows_the_steps_of_a_case() -> None:
    observer = Steps()
    execution = Execution(nullcontext, launches=ObservedLaunches(is_compared=lambda _: False), observer=observer)
    doubling = op(lambda x: x * 2, lambda x: x * 2, {"x": ROWS})
    execution.run(doubling, case(seed=1))
    execution.run_again(doubling, case(seed=1))
    assert observer.steps == [
        ("begin", 1, False),
        ("outputs", "y"),
        ("expected", "op", "y", "d:x"),
        ("begin", 1, True),
        ("outputs", "y"),
    ]


def fails_in_forward(x: torch.Tensor) -> torch.Tensor:
    if x.numel():
        raise ValueError("wrong shape")  # in forward
    return x


def fails_in_torch(x: torch.Tensor) -> torch.Tensor:
    return x @ torch.zeros(3, 3)  # in torch


def fails_in_backward(x: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = Broken.apply(x)
    return made


@pytest.mark.parametrize(
    ("call", "kind", "phase", "where"),
    [
        (fails_in_forward, "ValueError", "forward", "in forward"),
        (fails_in_torch, "RuntimeError", "forward", "in torch"),
        (fails_in_backward, "KeyError", "backward", "in backward"),
    ],
    ids=["forward", "torch", "backward"],
)
def test_exceptions_of_the_library_are_recorded_with_phase_and_line(
    call: Callable[..., Any], kind: str, phase: str, where: str
) -> None:
    ending = ended(call)
    assert isinstance(ending, Raised)
    assert (ending.kind, ending.phase) == (kind, phase)
    assert ending.source == Source(file=__file__, line=line_of(where))
    assert ending.message in ending.traceback


def fails_as_reference(x: torch.Tensor) -> torch.Tensor:
    return x * (1 // 0)


def test_a_failing_reference_is_the_suites_fault() -> None:
    ending = ended(lambda x: x * 2, fails_as_reference)
    assert isinstance(ending, Raised)
    assert (ending.kind, ending.phase) == ("ZeroDivisionError", "reference")


def test_an_unknown_parameter_of_a_call_is_the_suites_fault() -> None:
    ending = ended(lambda x, nowhere: x + nowhere)
    assert isinstance(ending, Raised)
    assert (ending.kind, ending.phase) == ("SuiteError", "inputs")


def form(kind: str = "float32", shape: tuple[int, ...] | None = (5, 7)) -> ResultForm:
    return ResultForm(kind=kind, shape=shape)


def mismatches(
    call: Callable[..., Any], reference: Callable[..., Any] = lambda x: x * 2, dtype: DType = DType.FP32
) -> tuple[list[tuple[str, ResultForm | None, ResultForm | None]], list[str]]:
    """Return the results of another form than the reference's, and the names of those that were compared."""
    execution = Execution(nullcontext)
    ending, results = execution.run(op(call, reference, {"x": ROWS}), case(dtype=dtype))
    assert ending == Completed()
    return [(one.name, one.got, one.expected) for one in execution.mismatches], [one.name for one in results]


def returns_nothing(x: torch.Tensor) -> None:
    del x


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda x: (x * 2, x), [("y", None, form()), ("y0", form(), None), ("y1", form(), None)]),
        (lambda x: [None, x.sum()], [("y", None, form()), ("y1", form(shape=()), None)]),
        (returns_nothing, [("y", None, form())]),
        (lambda x: x.shape[0], [("y", form("int", None), form())]),
        (lambda x: {"y": x * 2}, [("y", form("dict", None), form())]),
        (lambda x: (x * 2)[:3], [("y", form(shape=(3, 7)), form())]),
    ],
    ids=["two instead of one", "a list", "None", "a number", "a dict", "another shape"],
)
def test_outputs_unlike_the_references_are_recorded_and_not_compared(
    call: Callable[..., Any], found: list[tuple[str, ResultForm | None, ResultForm | None]]
) -> None:
    assert mismatches(call) == (found, [])


def test_a_missing_output_among_several_is_recorded() -> None:
    assert mismatches(lambda x: (x * 2, None), lambda x: (x * 2, x.sum(-1))) == ([("y1", None, form(shape=(5,)))], [])


@pytest.mark.parametrize(
    ("got", "dtype", "found"),
    [
        (torch.bfloat16, DType.BF16, None),
        (torch.float32, DType.BF16, None),
        (torch.float16, DType.BF16, ("float16", "bfloat16")),
        (torch.float64, DType.FP16, ("float64", "float16")),
        (torch.bfloat16, DType.FP32, ("bfloat16", "float32")),
        (torch.int64, DType.FP32, ("int64", "float32")),
    ],
)
def test_an_output_of_a_type_that_nothing_explains_is_recorded(
    got: torch.dtype, dtype: DType, found: tuple[str, str] | None
) -> None:
    expected = [("y", form(found[0]), form(found[1]))] if found else []
    seen, _ = mismatches(lambda x: x.detach().to(got), lambda x: x.detach(), dtype)
    assert seen == expected


def test_a_type_is_right_if_the_reference_has_it_in_the_cases_type() -> None:
    assert mismatches(lambda x: x.detach().half(), lambda x: x.detach().half())[0] == []


def test_a_type_is_right_if_an_option_names_it() -> None:
    def cast(x: torch.Tensor, output_dtype: str) -> torch.Tensor:
        return x.detach().to(getattr(torch, output_dtype))

    declared = replace(
        op(cast, lambda x: x.detach(), {"x": ROWS}), options={"output_dtype": ("float32", "bfloat16", "float16")}
    )
    execution = Execution(nullcontext)
    for name in ("bfloat16", "float16"):
        assert execution.run(declared, case(options={"output_dtype": name}))[0] == Completed()
        assert execution.mismatches == ()


def test_integers_of_another_width_are_alike() -> None:
    assert mismatches(lambda x: x.argmax(-1).int(), lambda x: x.argmax(-1)) == ([], ["y"])


class Forgetful(torch.autograd.Function):
    """Has no gradient for its input."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        del ctx
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> None:
        del ctx, grads


def forgets(x: torch.Tensor) -> Any:
    return Forgetful.apply(x)


@pytest.mark.parametrize("call", [lambda x: x.detach() * 2, forgets], ids=["no gradients", "one is None"])
def test_a_missing_gradient_is_recorded(call: Callable[..., Any]) -> None:
    assert mismatches(call) == ([("d:x", None, form())], ["y"])


def test_a_missing_gradient_is_right_if_it_is_zero() -> None:
    assert mismatches(lambda x: x.detach() * 0, lambda x: x * 0)[0] == []
    assert mismatches(lambda x: x * 0, lambda x: x.detach() * 0)[0] == []


def test_a_gradient_that_the_definition_lacks_is_recorded() -> None:
    assert mismatches(lambda x: x * 2, lambda x: x.detach() * 2) == ([("d:x", form(), None)], ["y"])


def declines(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError(f"no kernel for {tuple(x.shape)}")


def test_a_declared_exception_refuses_the_case() -> None:
    assert ended(declines) == Refused(message="NotImplementedError: no kernel for (5, 7)")


def asks_too_much(x: torch.Tensor) -> torch.Tensor:
    return x + torch.empty(1 << 60, dtype=torch.float32)[0]


def test_too_large_an_allocation_ends_as_out_of_memory() -> None:
    assert isinstance(ended(asks_too_much), OutOfMemory)


def test_unwritten_elements_are_counted() -> None:
    fresh = FreshMemory()

    @contextmanager
    def surroundings() -> Generator[None]:
        with fresh:
            yield

    def call(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        y[:4] = (x.detach() * 2)[:4]
        return y

    ending, results = Execution(surroundings).run(op(call, lambda x: x.detach() * 2, {"x": ROWS}), case())
    assert ending == Completed()
    assert [(result.name, result.unwritten, result.first_unwritten) for result in results] == [("y", 7, (4, 0))]


def test_an_input_that_the_op_ignores_has_a_zero_gradient() -> None:
    ignoring = op(lambda x: x * 2, lambda x: x * 2, {"x": ROWS, "w": COLUMNS})
    ending, results = Execution(nullcontext).run(ignoring, case())
    assert ending == Completed()
    assert [(result.name, result.whole.ratio < 1, result.worst_tile.ratio < 1) for result in results] == [
        ("y", True, True),
        ("d:x", True, True),
        ("d:w", True, True),
    ]


def test_a_library_may_overwrite_its_inputs_and_incoming_gradients() -> None:
    def call(x: torch.Tensor) -> Any:
        return Frugal.apply(x)

    ending, results = Execution(nullcontext).run(op(call, lambda x: x * x, {"x": ROWS}), case())
    assert ending == Completed()
    assert [(result.name, result.whole.ratio < 1) for result in results] == [("y", True), ("d:x", True)]


@pytest.mark.parametrize(("rows", "columns"), [(0, 7), (5, 0), (0, 0)])
def test_empty_inputs_complete(rows: int, columns: int) -> None:
    ending, results = Execution(nullcontext).run(
        op(lambda x: x * 2, lambda x: x * 2, {"x": ROWS}), case(rows=rows, columns=columns)
    )
    assert ending == Completed()
    assert [(result.name, result.shape) for result in results] == [("y", (rows, columns)), ("d:x", (rows, columns))]


def test_tf32_rounding_of_factors_is_explained_only_for_tf32_dots() -> None:
    def in_tf32(values: torch.Tensor) -> torch.Tensor:
        return (values.view(torch.int32) & -(1 << 13)).view(torch.float32) if values.numel() else values

    def multiply(x: torch.Tensor) -> torch.Tensor:
        return (in_tf32(x.detach())[:, None] * in_tf32(x.detach())).sum(-1)

    def add_up(x: torch.Tensor) -> torch.Tensor:
        return in_tf32((x.detach() + x.detach().flip(0)).contiguous())

    def worst(call: Callable[..., Any], reference: Callable[..., Any], *precisions: str) -> float:
        execution = Execution(nullcontext, launches=ObservedLaunches(dot_precisions=lambda: precisions))
        _, (result,) = execution.run(op(call, reference, {"x": ROWS}), case(rows=16, columns=32))
        return max(result.whole.ratio, result.worst_tile.ratio)

    products = (multiply, lambda x: (x.detach()[:, None] * x.detach()).sum(-1))
    sums = (add_up, lambda x: x.detach() + x.detach().flip(0))
    assert worst(*products) > 1 > worst(*products, "tf32")
    assert worst(*sums) > 1
    assert worst(*sums, "tf32") > 1


def test_an_operator_that_torch_has_only_for_cuda_is_unsupported() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._cslt_compress(x.detach())

    ending, _ = Execution(nullcontext).run(op(call, lambda x: x, {"x": ROWS}), case())
    assert isinstance(ending, Unsupported)
    assert ending.what == "aten::_cslt_compress on the CPU"


def test_a_sequential_sum_of_many_equal_numbers_is_right() -> None:
    def one_after_the_other(x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(x.shape[-1])
        for row in x.detach().expand(4096, -1):
            total = total + row
        return total

    def ratio(call: Callable[..., Any], share: float = 1.0) -> float:
        definition = op(call, lambda x: share * x.detach().expand(4096, -1).sum(0), {"x": ROWS})
        _, (result,) = Execution(nullcontext).run(definition, case(rows=1, columns=64))
        return max(result.whole.ratio, result.worst_tile.ratio)

    assert ratio(one_after_the_other) < 1
    assert ratio(one_after_the_other, share=4095 / 4096) > 1


def test_a_sum_of_cancelling_terms_may_be_off_by_partial_roundings() -> None:
    def terms(x: torch.Tensor) -> torch.Tensor:
        values = x.flatten()
        return torch.cat([values, -values, values[:1] / 1024])

    def one_after_the_other(x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(())
        for value in terms(x.detach().sort(0).values):
            total = total + value
        return total[None]

    def ratio(seed: int, error: float = 0.0) -> float:
        definition = op(
            lambda x: one_after_the_other(x) + error,
            lambda x: terms(x.detach().sort(0).values).sum()[None],
            {"x": ROWS},
        )
        _, (result,) = Execution(nullcontext).run(definition, case(rows=16, columns=12, seed=seed))
        return max(result.whole.ratio, result.worst_tile.ratio)

    assert all(ratio(seed) < 1 < ratio(seed, error=1e-3) for seed in range(20))


def test_a_definition_that_rounding_moves_out_of_its_domain_counts_unmoved() -> None:
    def largest(x: torch.Tensor) -> torch.Tensor:
        values = x.detach().flatten().sort().values
        place = (torch.ones((), dtype=x.dtype) * (len(values) - 1)).ceil().long()
        return values[place][None]

    definition = op(lambda x: largest(x) * (1 + 2.0**-23), largest, {"x": ROWS})
    ending, (result,) = Execution(nullcontext).run(definition, case(seed=3))
    assert (ending, result.is_right) == (Completed(), True)


@pytest.mark.parametrize(("dtype", "explained"), [(DType.FP16, True), (DType.BF16, False)])
def test_infinity_is_right_if_an_intermediate_may_overflow_float16(dtype: DType, *, explained: bool) -> None:
    def multiply_first(x: torch.Tensor) -> torch.Tensor:
        y = x.detach() * 300.0 / 300.0
        return torch.where(torch.arange(y.numel()).reshape(y.shape) == 3, torch.inf, y)

    definition = op(multiply_first, lambda x: x.detach() / 300.0 * 300.0 * 300.0 / 300.0, {"x": ROWS})
    _, (result,) = Execution(nullcontext).run(definition, case(dtype=dtype, values=ValueDistribution.LARGE))
    assert (result.nonfinite, result.unjudged) == ((0, 1) if explained else (1, 0))


def test_rounding_of_subnormal_float16_is_explained() -> None:
    def each_term_in_halves(x: torch.Tensor) -> torch.Tensor:
        return (x.detach() * 1e-7).float().sum(-1).mul(1e3).half()

    definition = op(each_term_in_halves, lambda x: x.detach().sum(-1) * 1e-7 * 1e3, {"x": ROWS})
    _, (result,) = Execution(nullcontext).run(
        definition, case(columns=64, dtype=DType.FP16, values=ValueDistribution.SHIFTED)
    )
    assert max(result.whole.ratio, result.worst_tile.ratio) < 1


def test_a_gradient_of_zeros_without_memory_is_compared() -> None:
    def sign(x: torch.Tensor) -> torch.Tensor:
        return torch.sgn(x)

    ending, results = Execution(nullcontext).run(op(sign, sign, {"x": ROWS}), case())
    assert ending == Completed()
    assert [(one.name, one.whole.ratio) for one in results] == [("y", 0.0), ("d:x", 0.0)]
