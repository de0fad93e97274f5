"""`kernel_test`: a test function of pytest whose cases the harness draws, runs in other processes, and checks.

    import harness

    @harness.kernel_test(dims={"T": harness.tokens(), "D": harness.width()}, inputs={"x": harness.tensor("T", "D")})
    def test_softmax(x):
        from my_kernels import softmax
        return softmax(x)

    @test_softmax.reference
    def softmax_definition(x):
        return x.softmax(-1)

The function is the op's call, and its file is the suite: a worker imports the file again, as on the emulated GPU.  So a
test file may import torch and Triton at its top.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Unpack

from harness.errors import SuiteError
from harness.model.input_spec import Input, Tensor
from harness.model.op import Dim, Op, OpSettings
from harness.oracles.result_structure import ResultStructure
from harness.suite import Declaration


class KernelTest(Declaration):
    """A test function, and what its cases may be.  pytest collects it as one test for each device."""

    def __init__(
        self, call: Callable[..., Any], options: Mapping[str, Any], *, device: str | None, cases: int | None
    ) -> None:
        super().__init__(call.__name__, call, options)
        self.__name__ = call.__name__  # pytest's marks are for objects with a name
        self.__doc__ = call.__doc__
        self.device = device
        self.cases = cases
        self.function = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, without the harness."""
        return self.function(*args, **kwargs)

    def complete(self, suite: str, portable_name: str = "") -> Op:
        """Return the op.  Without a reference, the function's own assertions judge its results.

        Raises:
            SuiteError: as of any op; or a parameter is no input, dim or option.
        """
        if self._reference is not None:
            declared = super().complete(suite, portable_name)
        else:
            self._reference = _nothing
            try:
                declared = super().complete(suite, portable_name)
            finally:
                self._reference = None
            inputs = {name: _without_gradient(declaration) for name, declaration in declared.inputs.items()}
            waives = frozenset({*declared.waives, ResultStructure.name})
            declared = dataclasses.replace(declared, inputs=inputs, waives=waives)
        known = {*declared.inputs, *declared.dims, *declared.options}
        undeclared = [name for name in inspect.signature(self.function).parameters if name not in known]
        if undeclared:
            raise SuiteError(
                f"{suite}: {self.name} takes {', '.join(undeclared)}, which is no input, dim or option: a kernel test "
                "runs in another process, without pytest's fixtures"
            )
        return declared


def kernel_test(
    *,
    dims: Mapping[str, Dim],
    inputs: Mapping[str, Input],
    device: str | None = None,
    cases: int | None = None,
    **more: Unpack[OpSettings],
) -> Callable[[Callable[..., Any]], KernelTest]:
    """Decorate a test function of pytest that calls kernels.

    The function takes inputs by name, and dims and options if it has parameters of these names.  It returns what the
    reference returns; without a reference, it asserts by itself and returns nothing.

    Args:
        dims: the range of each size by name, for example `{"T": tokens(), "D": width()}`.
        inputs: what the function takes, by name: `tensor(…)`, `integers(…)` or `segments(…)`.
        device: GPUs to emulate, as `--harness-device` takes them; by default what that option or the project says.
        cases: new cases on each device; by default the examples of a Hypothesis profile, or `--harness-cases`.
        more: as for `harness.suite.op`.
    """

    def declare(call: Callable[..., Any]) -> KernelTest:
        return KernelTest(call, {"dims": dims, "inputs": inputs, **more}, device=device, cases=cases)

    return declare


def _nothing(**_: object) -> None:
    """Define no results."""


def _without_gradient(declaration: Input) -> Input:
    return dataclasses.replace(declaration, grad=False) if isinstance(declaration, Tensor) else declaration
