"""Parts of definitions agree with torch's own functions."""

import pytest
import torch

from harness.suite import attention, dequantised, owned, ragged, segment_ids


def test_the_first_places_of_each_row_are_masked_in() -> None:
    assert ragged(torch.tensor([0, 3, 1]), 3).int().tolist() == [[0, 0, 0], [1, 1, 1], [1, 0, 0]]
    assert ragged(torch.tensor(1), 2).tolist() == [True, False]


def test_cells_of_pages_are_owned_by_the_requests_that_share_them() -> None:
    table, lengths = torch.tensor([[2, 0, -1], [2, 3, 3]]), torch.tensor([3, 2])
    assert owned(table, lengths, 4, 2).int().tolist() == [[1, 0], [0, 0], [1, 1], [0, 0]]


def test_tokens_belong_to_the_segment_that_is_not_empty_and_a_tail_to_none() -> None:
    assert segment_ids(torch.tensor([0, 2, 2, 3]), 5).tolist() == [0, 0, 2, -1, -1]


def test_attention_equals_that_of_torch_with_shared_heads_and_a_mask() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(5, heads, 8, generator=generator, dtype=torch.float64) for heads in (6, 2, 2))
    allowed = torch.ones(5, 5, dtype=torch.bool).tril()
    result, logarithms = attention(q, k, v, allowed=allowed, scale=0.3)
    by_head = (one.transpose(0, 1) for one in (q, k, v))
    wanted = torch.nn.functional.scaled_dot_product_attention(*by_head, attn_mask=allowed, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(result, wanted.transpose(0, 1))
    batched, _ = attention(q[None], k[None], v[None], allowed=allowed, scale=0.3)
    torch.testing.assert_close(batched[0], result)
    scores = 0.3 * torch.einsum("qhd,khd->hqk", q, k.repeat_interleave(3, 1)).masked_fill(~allowed, -torch.inf)
    torch.testing.assert_close(logarithms, scores.logsumexp(-1).T)


@pytest.mark.parametrize("keys", [0, 3])
def test_a_query_without_a_key_gets_zeros(keys: int) -> None:
    q, k = torch.ones(1, 2, 4), torch.ones(keys, 2, 4)
    result, logarithms = attention(q, k, k, allowed=torch.zeros(1, keys, dtype=torch.bool))
    assert result.tolist() == torch.zeros(1, 2, 4).tolist()
    assert logarithms.tolist() == [[-torch.inf, -torch.inf]]


def test_a_cap_bounds_products() -> None:
    q, k = torch.tensor([[[100.0]]]), torch.tensor([[[100.0]], [[0.0]]])
    _, logarithms = attention(q, k, k, logit_cap=2.0)
    torch.testing.assert_close(logarithms, torch.tensor([[2.0, 0.0]]).logsumexp(-1, keepdim=True))


def test_blocks_share_scales_also_at_ragged_ends() -> None:
    scales = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    values = dequantised(torch.ones(3, 5, dtype=torch.int8), scales, group=(2, 3))
    assert values.tolist() == [[1, 1, 1, 2, 2], [1, 1, 1, 2, 2], [3, 3, 3, 4, 4]]
