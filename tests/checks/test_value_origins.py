"""Where values come from is told by the bytes that operators and launches leave."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from harness.checks.answer import OriginFault
from harness.checks.value_origins import SMALL, ValueOrigins
from harness.engines.torch.torch_seam import without_dispatch_modes

ROWS, COLUMNS = 12, 37


class Call:
    """One call of a candidate whose launches are Python functions."""

    def __init__(self) -> None:
        self.x = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
        self.origins = ValueOrigins((self.x,))

    def launch(self, stored: torch.Tensor, values: Callable[[], torch.Tensor], *others: torch.Tensor) -> torch.Tensor:
        """Store values as a kernel does that also gets other tensors."""
        tensors = {"stored": stored, **{f"x{at}": other for at, other in enumerate(others)}}
        self.origins.before(tensors)
        with without_dispatch_modes():
            stored.copy_(values())
        self.origins.after(tensors, ("stored",))
        return stored

    def faults(self, *outputs: torch.Tensor) -> set[OriginFault]:
        """Return the faults that chance does not explain."""
        named = {f"y{at}": output for at, output in enumerate(outputs)}
        return {fault for fault, may_be_chance in self.origins.faults(named, {"x": self.x}) if not may_be_chance}


@pytest.fixture
def call() -> Call:
    return Call()


def test_what_a_kernel_computes_has_no_fault(call: Call) -> None:
    x = call.x
    with call.origins:
        middle = call.launch(torch.zeros_like(x), x.exp, x)
        y = call.launch(torch.zeros_like(x).t(), lambda: torch.relu(middle.t() - 1), middle.t().contiguous())
    assert call.faults(y) == set()
    assert call.origins.work == {}


def test_a_kernel_may_change_a_copy_of_an_input_in_place(call: Call) -> None:
    with call.origins:
        y = call.x.clone()
        call.launch(y, call.x.relu)
    assert call.faults(y) == set()


def test_torch_may_compute_a_part(call: Call) -> None:
    x = call.x
    with call.origins:
        scaled = x * 3.0
        y = call.launch(torch.zeros_like(x), scaled.exp, scaled)
    assert call.faults(y) == set()
    assert call.origins.work == {"mul": x.numel()}


@pytest.mark.parametrize("fraction", [1.0, 1.0 + 1e-6])
@pytest.mark.parametrize(
    "form",
    [
        lambda right: right,
        lambda right: right.flip(0, 1),
        lambda right: right.t().contiguous().t(),
        lambda right: torch.cat([right, torch.zeros(7, COLUMNS)])[:ROWS],
    ],
)
def test_a_copy_of_what_torch_computed_is_one_in_any_form(
    call: Call, form: Callable[[torch.Tensor], torch.Tensor], fraction: float
) -> None:
    with call.origins:
        right = form(call.x.exp())
        y = call.launch(torch.zeros_like(call.x), lambda: right * fraction, right)
    assert OriginFault.COPIED in call.faults(y)


def test_a_copy_from_a_longer_buffer_is_a_copy(call: Call) -> None:
    with call.origins:
        buffer = torch.zeros(5 * call.x.numel())
        torch.exp(call.x.reshape(-1), out=buffer[3 : 3 + call.x.numel()])
        y = call.launch(torch.zeros_like(call.x), lambda: buffer[3 : 3 + call.x.numel()].view_as(call.x), buffer)
    assert OriginFault.COPIED in call.faults(y)


def test_one_number_may_be_copied_too(call: Call) -> None:
    with call.origins:
        right = call.x.exp().mean()
        y = call.launch(torch.zeros(()), lambda: right, right)
    assert set(call.origins.faults({"y": y}, {"x": call.x})) == {(OriginFault.COPIED, True)}


def test_each_output_is_judged_by_itself(call: Call) -> None:
    x = call.x
    with call.origins:
        right = x.exp()
        copied = call.launch(torch.zeros_like(x), lambda: right, right)
        honest = call.launch(torch.zeros_like(x), x.sin, x)
    assert call.faults(honest) == set()
    assert OriginFault.COPIED in call.faults(honest, copied)


def test_what_torch_stores_into_an_output_is_no_kernel_s(call: Call) -> None:
    with call.origins:
        y = call.launch(torch.zeros_like(call.x), lambda: torch.ones(()))
        torch.exp(call.x[2:], out=y[2:])
        call.launch(y, y.clone)
    assert OriginFault.KEPT in call.faults(y)


def test_an_output_that_changes_after_the_last_launch_is_told(call: Call) -> None:
    with call.origins:
        y = call.launch(torch.zeros_like(call.x), call.x.exp)
        y.mul_(2.0)
    assert OriginFault.CHANGED in call.faults(y)


def test_an_output_of_an_earlier_call_is_told(call: Call) -> None:
    y = call.x.exp()
    with call.origins:
        pass
    assert call.faults(y) == {OriginFault.EARLIER}


@pytest.mark.parametrize(
    "outside",
    [
        lambda x: torch.from_numpy(np.exp(x.numpy())),
        lambda x: torch.tensor(np.exp(x.numpy()).tolist()),
        lambda x: torch.from_numpy(np.exp(x.numpy())) + 1.0,
    ],
)
def test_values_from_outside_torch_are_told(call: Call, outside: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with call.origins:
        given = outside(call.x)
        y = call.launch(torch.zeros_like(call.x), given.sqrt, given)
    assert OriginFault.ELSEWHERE in call.faults(y)


def test_memory_that_numpy_fills_is_from_outside_torch(call: Call) -> None:
    with call.origins:
        given = torch.zeros_like(call.x)
        np.exp(call.x.numpy(), out=given.numpy())
        y = call.launch(torch.zeros_like(call.x), given.sqrt, given)
    assert OriginFault.ELSEWHERE in call.faults(y)


def test_small_tables_and_earlier_ones_are_no_values_from_outside(call: Call) -> None:
    with ValueOrigins(left=(left := {})):
        table = torch.arange(1000.0).cos()
    origins = call.origins = ValueOrigins((call.x,), left)
    with origins:
        factors = torch.tensor([float(at) for at in range(SMALL)])
        y = call.launch(torch.zeros_like(call.x), call.x.exp, table, factors)
    assert call.faults(y) == set()


def test_an_address_is_not_used_again_after_a_launch(call: Call) -> None:
    with call.origins:
        call.launch(torch.zeros_like(call.x), call.x.exp)  # freed at once
        y = call.x.cos()
    assert OriginFault.KEPT in call.faults(y)


def test_numbers_that_host_code_reads_are_counted_for_each_pass(call: Call) -> None:
    with call.origins:
        y = call.launch(torch.zeros_like(call.x), call.x.exp)
        call.x.tolist()
    assert call.faults(y) == {OriginFault.READ}
    call.origins.begin_backward(())
    assert call.faults(y) == set()
