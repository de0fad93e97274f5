"""Numbers by counter: normal, the same in slabs of any size, and the same bits wherever they are drawn."""

import pytest
import torch

from harness.execution import counter_numbers, inputs
from harness.execution.counter_numbers import checksum, normal, signs
from harness.model.case import DType, Layout, ValueDistribution
from tests.execution.ops_for_tests import LAYER_NORM, case


def test_the_numbers_are_normal_and_independent() -> None:
    values, others = normal(5, (1 << 20,)), normal(6, (1 << 20,))
    assert abs(float(values.mean())) < 4e-3
    assert float(values.std()) == pytest.approx(1, abs=4e-3)
    assert float((values**4).mean()) == pytest.approx(3, abs=0.05)
    assert abs(float((values * others).mean())) < 4e-3
    assert abs(float((values[1:] * values[:-1]).mean())) < 4e-3
    assert abs(float(signs(5, 1 << 20).mean())) < 4e-3


def test_the_numbers_of_a_seed_stay_the_same_in_all_releases() -> None:
    assert normal(1, (4,)).view(torch.int32).tolist() == [-1075340017, -1077920238, 1067560625, -1087367050]
    assert f"{checksum(torch.arange(100)):016x}" == "2c8637ca49fef585"


def test_numbers_and_checksums_do_not_depend_on_the_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = normal(7, (10, 100)), signs(7, 1000), checksum(torch.arange(1000))
    monkeypatch.setattr(counter_numbers, "SLAB", 64)
    assert torch.equal(normal(7, (10, 100)), whole[0])
    assert torch.equal(signs(7, 1000), whole[1])
    assert checksum(torch.arange(1000)) == whole[2]


def test_a_checksum_sees_swapped_words_and_flipped_signs() -> None:
    words = torch.arange(100)
    swapped = words.clone()
    swapped[:2] = swapped[:2].flip(0)
    flipped = words.clone()
    flipped[:2] ^= torch.iinfo(torch.int64).min
    assert len({checksum(words), checksum(swapped), checksum(flipped)}) == 3


@pytest.mark.parametrize("values", [ValueDistribution.NORMAL, ValueDistribution.TIES, ValueDistribution.ZEROS])
def test_large_inputs_are_drawn_by_counter_if_their_distribution_allows(
    monkeypatch: pytest.MonkeyPatch, values: ValueDistribution
) -> None:
    drawn = case(rows=8, columns=9, dtype=DType.BF16, values=values, layouts={"x": Layout.STRIDED})
    in_sequence = inputs.make_inputs(LAYER_NORM, drawn)["x"]
    monkeypatch.setattr(counter_numbers, "LARGE", 71)
    by_counter = inputs.make_inputs(LAYER_NORM, drawn)["x"]
    assert in_sequence is not None
    assert by_counter is not None
    assert by_counter.stride() == in_sequence.stride()
    assert torch.equal(by_counter, in_sequence) == (values is ValueDistribution.ZEROS)
