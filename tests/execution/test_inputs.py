"""Inputs follow from the seed alone, and each layout holds the same values."""

import pytest
import torch

from harness.errors import SuiteError
from harness.execution.inputs import draw, in_order, make_cotangents, make_inputs
from harness.execution.layouts import GAP_ELEMENTS, OFFSET_ELEMENTS, UNIT_STRIDE, lay_out
from harness.execution.suite_arguments import arguments_for
from harness.model.case import DType, Layout, ValueDistribution
from harness.model.input_spec import Draw, Tensor
from tests.execution.ops_for_tests import LAYER_NORM, case


@pytest.mark.parametrize("values", list(ValueDistribution))
def test_absent_inputs_do_not_change_the_others(values: ValueDistribution) -> None:
    whole = make_inputs(LAYER_NORM, case(values=values, seed=3))
    again = make_inputs(LAYER_NORM, case(values=values, seed=3, absent=("w",)))
    assert again["w"] is None
    for name in ("x", "b"):
        one, other = whole[name], again[name]
        assert one is not None
        assert other is not None
        assert torch.equal(one, other)
        assert one.is_leaf
        assert one.requires_grad


def test_another_seed_or_name_draws_other_values() -> None:
    first, second = (make_inputs(LAYER_NORM, case(seed=seed)) for seed in (0, 1))
    assert not torch.equal(present(first["x"]), present(second["x"]))
    assert not torch.equal(present(first["w"]), present(first["b"]))


def test_each_draw_transforms_the_values_of_the_case() -> None:
    def drawn(how: Draw, values: ValueDistribution = ValueDistribution.NORMAL) -> torch.Tensor:
        return draw(case(values=values), "x", (64, 32), torch.float32, how)

    numbers = drawn(Draw.VALUES)
    assert torch.equal(drawn(Draw.UNIT), torch.sigmoid(numbers))
    assert torch.equal(drawn(Draw.LOG_UNIT), torch.nn.functional.logsigmoid(numbers))
    assert float(drawn(Draw.LOG_UNIT, ValueDistribution.LARGE).min()) < -200
    assert float(drawn(Draw.POSITIVE).min()) > 0
    torch.testing.assert_close(drawn(Draw.SHARES).sum(-1), torch.ones(64))
    torch.testing.assert_close(drawn(Draw.LOG_SHARES).exp().sum(-1), torch.ones(64))
    torch.testing.assert_close(drawn(Draw.NORMALISED).norm(dim=-1), torch.ones(64))
    shares = drawn(Draw.SHARES, ValueDistribution.ZEROS)
    assert int((shares == 0).sum()) > 64
    assert torch.isfinite(shares).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("values", [ValueDistribution.TIES, ValueDistribution.ZEROS])
def test_sorted_numbers_may_all_differ(dtype: torch.dtype, values: ValueDistribution) -> None:
    numbers = draw(case(values=values), "x", (8, 64), dtype)
    ordered = in_order(numbers, distinct=False, ascending=True)
    assert torch.equal(ordered, numbers.sort(-1).values)
    rising = in_order(numbers, distinct=True, ascending=True)
    assert bool((rising.diff(dim=-1) > 0).all())
    assert torch.allclose(rising, ordered, rtol=0.5, atol=1e-3)
    mixed = in_order(numbers, distinct=True, ascending=False)
    assert torch.equal(mixed.sort(-1).values, rising)
    assert float((mixed - numbers).abs().max()) == float((rising - ordered).abs().max())


def test_extents_are_integer_arithmetic_over_dims() -> None:
    declared = Tensor(shape=("T*D", "D//2", "T-1", 3))
    assert declared.extents({"T": 4, "D": 6}) == (24, 3, 3, 3)
    assert declared.named == {"T", "D"}
    with pytest.raises(ValueError, match=r"'T\*\*2' is not integer arithmetic"):
        Tensor(shape=("T**2",)).extents({"T": 4})


def present(value: torch.Tensor | None) -> torch.Tensor:
    assert value is not None
    return value


def test_a_narrow_type_holds_the_same_draw_rounded() -> None:
    wide = present(make_inputs(LAYER_NORM, case())["x"])
    narrow = present(make_inputs(LAYER_NORM, case(dtype=DType.BF16))["x"])
    assert torch.equal(wide.to(torch.bfloat16), narrow)


def test_values_come_from_the_distribution_they_name() -> None:
    def drawn(values: ValueDistribution) -> torch.Tensor:
        return draw(case(values=values), "x", (64, 64), torch.float32)

    normal = drawn(ValueDistribution.NORMAL)
    assert torch.equal(drawn(ValueDistribution.SHIFTED), normal + 3)
    assert torch.equal(drawn(ValueDistribution.NEGATIVE), normal - 3)
    extreme = drawn(ValueDistribution.EXTREME)
    assert 1 / 2 < (extreme == normal).double().mean() < 1
    assert 2.0**60 < extreme.abs().max() < 2.0**100
    assert torch.equal(drawn(ValueDistribution.LARGE), normal * 100)
    assert torch.equal(drawn(ValueDistribution.TINY), normal * 1e-4)
    assert torch.equal(drawn(ValueDistribution.HUGE), normal * 10_000)
    assert torch.equal(drawn(ValueDistribution.TIES), (2 * normal).round() / 2)
    scaled = (drawn(ValueDistribution.SCALED_ROWS) / normal).log2()
    assert torch.equal(scaled, scaled[:, :1].round().expand(64, 64))
    assert (float(scaled.min()), float(scaled.max())) == (-11, 12)
    zeros = drawn(ValueDistribution.ZEROS)
    assert bool(((zeros == 0) | (zeros == normal)).all())
    assert 0.3 < float((zeros == 0).float().mean()) < 0.6
    assert int((zeros == 0).all(-1).sum()) > 0


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (2, 3, 4), (2, 3, 4, 5), (0,), (3, 0), (0, 3)], ids=str)
@pytest.mark.parametrize("layout", list(Layout))
def test_every_layout_holds_the_values_and_nan_around_them(layout: Layout, shape: tuple[int, ...]) -> None:
    values = torch.randn(shape)
    made = lay_out(values, layout)
    expected = values
    if layout is Layout.REPEATED and shape:
        expected = values[:1].expand(shape)
    if layout is Layout.EXPANDED:
        expected = values.reshape(-1)[:1].expand(values.numel()).view(shape)
    assert torch.equal(made, expected)
    storage = torch.empty(0).set_(made.untyped_storage())
    places = torch.arange(storage.numel()).as_strided(made.shape, made.stride(), made.storage_offset())
    covered = torch.isin(torch.arange(storage.numel()), places.flatten())
    if layout is not Layout.EXPANDED:  # which keeps the memory of all values
        assert bool(storage[~covered].isnan().all())


@pytest.mark.parametrize(
    ("layout", "strides", "around"),
    [
        (Layout.CONTIGUOUS, (60, 20, 5, 1), 0),
        (Layout.OFFSET, (60, 20, 5, 1), 2 * OFFSET_ELEMENTS),
        (Layout.STRIDED, (12 * (5 + GAP_ELEMENTS), 4 * (5 + GAP_ELEMENTS), 5 + GAP_ELEMENTS, 1), 24 * GAP_ELEMENTS),
        (Layout.TRANSPOSED, (60, 5, 15, 1), 0),
        (Layout.BATCH_STRIDED, (80, 20, 5, 1), 40),
        (Layout.STEPPED, (120, 40, 10, 2), 120),
        (Layout.COLUMN_MAJOR, (60, 20, 1, 4), 0),
        (Layout.PERMUTED, (1, 2, 6, 24), 0),
        (Layout.REPEATED, (0, 20, 5, 1), -60),
        (Layout.EXPANDED, (0, 0, 0, 0), -119),
    ],
)
def test_every_layout_has_its_strides(layout: Layout, strides: tuple[int, ...], around: int) -> None:
    made = lay_out(torch.randn(2, 3, 4, 5), layout)
    assert made.stride() == strides
    assert torch.empty(0).set_(made.untyped_storage()).numel() == 120 + (around if layout is not Layout.EXPANDED else 0)


def test_dims_of_one_element_have_a_stride_that_says_nothing() -> None:
    made = lay_out(torch.randn(1, 3, 1, 4), Layout.OFFSET)
    assert made.stride() == (UNIT_STRIDE, 4, UNIT_STRIDE, 1)
    assert lay_out(torch.randn(3, 1), Layout.OFFSET).stride() == (1, 1)
    assert made.is_contiguous()
    assert lay_out(torch.randn(7), Layout.STRIDED).stride() == (2,)


def test_cotangents_are_random_and_have_the_cases_layout() -> None:
    outputs = {"y0": torch.zeros(3, 4, dtype=torch.bfloat16), "y1": torch.zeros(3, 4)}
    plain = make_cotangents(case(values=ValueDistribution.LARGE), outputs)
    strided = make_cotangents(case(values=ValueDistribution.LARGE, layouts={"grad": Layout.STRIDED}), outputs)
    for name, output in outputs.items():
        assert plain[name].dtype is output.dtype
        assert torch.equal(plain[name], strided[name])
        assert strided[name].stride() == (4 + GAP_ELEMENTS, 1)
        assert float(plain[name].abs().max()) < 10
    assert not torch.equal(plain["y0"].float(), plain["y1"])


def test_functions_get_the_arguments_that_they_name() -> None:
    inputs, dims = {"x": 1, "w": None}, {"T": 4}
    assert arguments_for(lambda x, T: (x, T), inputs, dims) == {"x": 1, "T": 4}  # noqa: N803 - a dim
    assert arguments_for(lambda **rest: rest, inputs, dims) == {"x": 1, "w": None, "T": 4}
    with pytest.raises(SuiteError, match="asks for z: no input, dim or option"):
        arguments_for(lambda x, z: (x, z), inputs, dims)
