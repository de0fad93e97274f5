"""One index of an independent dim is infinite or NaN, and results at other indices must not change."""

import math
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from harness.execution.compare import digests
from harness.execution.execution import Execution
from harness.execution.inputs import make_inputs
from harness.execution.nan_taint import NanTaint, holds_infinity, infinity_as_nan
from harness.model.case import Case, Scale, ValueDistribution
from harness.model.input_spec import Tensor
from harness.model.op import Op
from harness.model.run import Completed
from tests.execution.ops_for_tests import LAYER_NORM, case, layer_norm_call, layer_norm_reference

INDEPENDENT = replace(LAYER_NORM, apart=("T",))


def nan_tainted(seed: int, rows: int = 5) -> Case:
    return case(values=ValueDistribution.NAN_TAINTED, seed=seed, rows=rows)


def test_one_row_is_tainted_and_all_others_stay_equal() -> None:
    fills: set[str] = set()
    places: set[int] = set()
    for seed in range(30):
        made, plain = make_inputs(INDEPENDENT, nan_tainted(seed)), make_inputs(INDEPENDENT, case(seed=seed))
        for name in ("w", "b"):
            assert torch.equal(present(made[name]), present(plain[name]))
        x = present(made["x"]).detach()
        (row,) = (~x.isfinite()).all(-1).nonzero()[:, 0].tolist()
        kept = torch.arange(5) != row
        assert torch.equal(x[kept], present(plain["x"])[kept])
        fills.add(str(float(x[row, 0])))
        places.add(row)
    assert fills == {"nan", "inf", "-inf"}
    assert len(places) == 5


@pytest.mark.parametrize(
    ("op", "one"),
    [
        (LAYER_NORM, nan_tainted(0)),
        (INDEPENDENT, nan_tainted(0, rows=1)),
        (INDEPENDENT, replace(nan_tainted(0), scale=Scale.OVERSIZED)),
    ],
    ids=["an op that promises nothing", "one row alone", "an oversized case"],
)
def test_nothing_is_tainted_without_an_independent_neighbour(op: Op, one: Case) -> None:
    made = make_inputs(op, one)
    assert all(bool(value.isfinite().all()) for value in made.values() if value is not None)


@pytest.mark.parametrize(("kind", "infinite"), [(torch.float8_e4m3fn, False), (torch.float8_e5m2, True)], ids=str)
def test_numbers_of_eight_bits_hold_infinity_if_their_type_has_it(kind: torch.dtype, *, infinite: bool) -> None:
    inputs: dict[str, torch.Tensor | None] = {"x": torch.tensor([1.0, math.inf]).to(kind)}
    assert holds_infinity(inputs) == infinite
    x = present(infinity_as_nan(inputs)["x"])
    assert (x.dtype, bool(x[1].float().isfinite())) == (kind, not infinite)


def test_all_rows_but_the_tainted_one_are_checked() -> None:
    ending, results = Execution(nullcontext).run(INDEPENDENT, nan_tainted(3))
    assert isinstance(ending, Completed)
    unjudged = {result.name: result.unjudged for result in results}
    assert unjudged == {"y": 7, "d:x": 7, "d:w": 7, "d:b": 7}
    assert all(result.whole.ratio <= 1 and not result.nonfinite for result in results)


def test_the_tainted_row_is_unchecked_even_if_the_definition_absorbs_infinity() -> None:
    def weighed(x: torch.Tensor, w: torch.Tensor | None, b: torch.Tensor | None) -> torch.Tensor:
        return torch.where(x == -math.inf, x * 0, layer_norm_call(x, w, b))

    def swallowed(x: torch.Tensor, w: torch.Tensor | None, b: torch.Tensor | None) -> torch.Tensor:
        return torch.where(x == -math.inf, 1.0, layer_norm_reference(x, w, b))

    op = replace(INDEPENDENT, call=weighed, reference=swallowed)
    infinite = next(seed for seed in range(30) if taint_fill(seed) == -math.inf)
    _, results = Execution(nullcontext).run(op, nan_tainted(infinite))
    assert [(result.unjudged, result.nonfinite) for result in results if result.name == "y"] == [(7, 0)]


def test_gradient_cells_at_other_indices_are_checked() -> None:
    taint = NanTaint(dim="H", index=1, fill=math.nan)
    dims = {"T": 2, "H": 3, "G": 2}
    apart = taint.independent_cells(Tensor(shape=("T", "H")), dims)
    assert apart.tolist() == [[True, False, True]] * 2
    assert not taint.independent_cells(Tensor(shape=("T", "G")), dims).any()  # a sum over H
    assert not taint.independent_cells(Tensor(shape=("T", "H*G")), dims).any()


def test_a_neighbour_multiplied_by_zero_shows_only_if_it_is_tainted() -> None:
    def careless(x: torch.Tensor, w: torch.Tensor | None, b: torch.Tensor | None) -> torch.Tensor:
        return layer_norm_call(x, w, b) + 0 * x.roll(1, 0)

    op = replace(INDEPENDENT, call=careless)
    _, unseen = Execution(nullcontext).run(op, case(seed=3))
    _, seen = Execution(nullcontext).run(op, nan_tainted(3))
    assert [result.nonfinite for result in unseen if result.name == "y"] == [0]
    assert [result.nonfinite for result in seen if result.name == "y"] == [7]


def test_digests_treat_all_nans_alike() -> None:
    one = torch.tensor([1.0, math.nan])
    other = torch.tensor([1.0, -math.nan]).copysign(torch.tensor([1.0, -1.0]))
    assert one.view(torch.int32)[1] != other.view(torch.int32)[1]
    assert digests({"y": one}) == digests({"y": other})
    assert digests({"y": one}) != digests({"y": torch.tensor([-1.0, math.nan])})


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu])
def test_digests_of_float8_treat_all_nans_alike(kind: torch.dtype) -> None:
    values = [torch.tensor([one, 255], dtype=torch.uint8).view(kind) for one in (1, 1, 2)]
    first, same, other = (digests({"y": value})["y"] for value in values)
    assert first == same != other


def taint_fill(seed: int) -> float:
    x = present(make_inputs(INDEPENDENT, nan_tainted(seed))["x"]).detach()
    return float(x[~x.isfinite()][0])


def present(value: torch.Tensor | None) -> torch.Tensor:
    assert value is not None
    return value
