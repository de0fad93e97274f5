"""Inputs follow from the seed alone, and each layout holds the same values."""

import pytest
import torch

from harness.errors import SuiteError
from harness.execution.inputs import (
    GAP_ELEMENTS,
    OFFSET_ELEMENTS,
    draw,
    draw_integers,
    draw_segments,
    lay_out,
    make_cotangents,
    make_inputs,
)
from harness.execution.suite_arguments import arguments_for
from harness.model.case import DType, Layout, ValueDistribution
from harness.model.input_spec import Draw, Integers, Segments, Tensor
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


def test_some_integers_are_at_edges_of_tiles() -> None:
    labels = Integers(shape=("T",), low=0, high=140_000)
    made = torch.cat([draw_integers(case(rows=200, seed=seed), "labels", labels) for seed in range(40)])
    edge = torch.tensor([65_536, 65_535, 131_072, 131_071])
    assert all((made == one).sum() >= 2 for one in edge)
    assert torch.isin(made, edge).float().mean() < 0.1
    assert (int(made.min()) >= 0, int(made.max()) < 140_000) == (True, True)


def test_integers_stay_in_range_except_ignored_ones() -> None:
    labels = Integers(shape=("T",), high="D", ignore=-100)
    shares: set[float] = set()
    for seed in range(40):
        made = draw_integers(case(rows=64, columns=7, seed=seed), "labels", labels)
        kept = made[made != -100]
        assert ((kept >= 0) & (kept < 7)).all()
        shares.add(len(kept) / 64)
    assert {0.0, 1.0} < shares
    offsets = draw_integers(case(rows=64), "offsets", Integers(shape=("T",), low="-T", high="T+1", dtype="int32"))
    assert offsets.dtype is torch.int32
    assert int(offsets.min()) < 0 < int(offsets.max())


def test_segments_rise_from_zero_to_the_total_and_may_be_uneven() -> None:
    longest: list[int] = []
    for seed in range(20):
        bounds = draw_segments(case(rows=200, columns=5, seed=seed), "cu", Segments(total="T", count="D"))
        assert (bounds[0], bounds[-1], len(bounds)) == (0, 200, 6)
        assert int(bounds.diff().min()) >= 1
        longest.append(int(bounds.diff().max()))
    assert max(longest) > 150
    assert min(longest) < 120
    assert draw_segments(case(rows=3, columns=8), "cu", Segments(total="T", count="D")).tolist() == [0, 1, 2, 3]


def test_sequences_are_empty_only_if_the_op_accepts_that() -> None:
    may = Segments(total="T", count="D", may_be_empty=True)
    drawn = [draw_segments(case(rows=40, columns=8, seed=seed), "cu", may) for seed in range(40)]
    for bounds in drawn:
        assert (bounds[0], bounds[-1], len(bounds)) == (0, 40, 9)
        assert int(bounds.diff().min()) >= 0
    empty = [bounds for bounds in drawn if int(bounds.diff().min()) == 0]
    assert 8 < len(empty) < 32
    assert any(bounds[1] == 0 for bounds in empty)
    assert any(bounds[-2] == 40 for bounds in empty)


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
    assert torch.equal(drawn(ValueDistribution.LARGE), normal * 100)
    assert torch.equal(drawn(ValueDistribution.TINY), normal * 1e-4)
    zeros = drawn(ValueDistribution.ZEROS)
    assert bool(((zeros == 0) | (zeros == normal)).all())
    assert 0.3 < float((zeros == 0).float().mean()) < 0.6
    assert int((zeros == 0).all(-1).sum()) > 0


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (2, 3, 4), (2, 3, 4, 5), (0,), (3, 0), (0, 3)], ids=str)
@pytest.mark.parametrize("layout", list(Layout))
def test_every_layout_holds_the_values_and_nan_around_them(layout: Layout, shape: tuple[int, ...]) -> None:
    values = torch.randn(shape)
    made = lay_out(values, layout)
    assert made.shape == values.shape
    inner = list(values.stride())
    count = values.numel()
    match layout:
        case Layout.CONTIGUOUS:
            expected, strides, around, offset = values, inner, 0, 0
        case Layout.OFFSET:
            expected, strides, around, offset = values, inner, 2 * OFFSET_ELEMENTS, OFFSET_ELEMENTS
        case Layout.STRIDED:
            expected, offset = values, 0
            wide = torch.empty(*shape[:-1], shape[-1] + GAP_ELEMENTS) if len(shape) > 1 else torch.empty(2 * count)
            strides = [2] if len(shape) == 1 else list(wide.stride()) if shape else []
            around = (wide.numel() - count) if shape else 0
        case Layout.BATCH_STRIDED:
            expected, offset = values, 0
            wide = torch.empty(shape[0], shape[1] + 1, *shape[2:]) if len(shape) > 2 else values
            strides, around = list(wide.stride()), wide.numel() - count
        case Layout.TRANSPOSED:
            expected, around, offset = values, 0, 0
            strides = (
                list(values.transpose(-3, -2).contiguous().transpose(-3, -2).stride()) if len(shape) > 2 else inner
            )
        case Layout.EXPANDED:
            expected = values.reshape(-1)[:1].reshape(()).expand(shape) if count else values
            strides, around, offset = [0] * len(shape) if count else inner, None, 0
    assert torch.equal(made, expected)
    assert made.storage_offset() == offset
    if count:
        assert list(made.stride()) == strides
    if around is not None:
        storage = torch.empty(0).set_(made.untyped_storage())
        assert int(storage.isnan().sum()) == around
        assert storage.numel() == count + around


def test_batches_have_a_gap_and_transposed_tensors_another_order() -> None:
    values = torch.randn(2, 3, 4)
    assert lay_out(values, Layout.BATCH_STRIDED).stride() == (16, 4, 1)
    assert lay_out(values, Layout.TRANSPOSED).stride() == (4, 8, 1)
    assert lay_out(torch.randn(2, 3, 4, 5), Layout.TRANSPOSED).stride() == (60, 5, 15, 1)


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
