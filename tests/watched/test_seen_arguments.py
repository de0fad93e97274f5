"""What is noted of a call's tensors: their integers, and the range of their numbers."""

import torch

from harness.drafts.seen_calls import SeenArgument
from harness.watched.call_sites import seen_argument


def test_the_range_of_numbers_and_sums_of_rows_are_noted() -> None:
    scores = seen_argument(torch.tensor([[0.25, 0.75], [0.5, 0.5]], dtype=torch.bfloat16))
    assert (scores.smallest, scores.largest, scores.sums_to_one) == (0.25, 0.75, True)
    assert not seen_argument(torch.tensor([[0.25, 0.5]])).sums_to_one
    infinite = seen_argument(torch.tensor([1.0, float("inf")]))
    assert (infinite.smallest, infinite.largest) == (0.0, 0.0)


def test_integers_have_a_range_a_sum_and_an_order() -> None:
    def facts(seen: SeenArgument) -> tuple[int, int, int, bool, bool, bool]:
        return seen.low, seen.high, seen.total, seen.rises, seen.is_distinct, seen.is_ascending

    assert facts(seen_argument(torch.tensor([0, 3, 3, 9], dtype=torch.int32))) == (0, 9, 15, True, False, True)
    assert facts(seen_argument(torch.tensor([4, -1, 2]))) == (-1, 4, 5, False, True, False)
    assert facts(seen_argument(torch.tensor(5))) == (5, 5, 5, False, True, True)
