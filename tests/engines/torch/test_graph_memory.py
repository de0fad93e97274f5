"""Places of captured tensors in a memory pool: torch's allocator gives away what the program has dropped."""

import torch

from harness.engines.torch.graph_memory import ROUND_BYTES, SMALL_BYTES, GraphPool, GraphPools

FIRST, SECOND = object(), object()
BLOCK = ROUND_BYTES // 4
"""Elements of one block."""


def allocated(pool: GraphPool, graph: object, blocks: int = 1, stream: int = 1) -> torch.Tensor:
    tensor = torch.ones(blocks * BLOCK)
    pool.allocate(tensor, graph, stream)
    return tensor


def places(pool: GraphPool, graph: object) -> list[tuple[int, int]]:
    return [(tenant.begin // ROUND_BYTES, tenant.end // ROUND_BYTES) for tenant in pool.of_graph(graph)]


def sizes_of_lost(pool: GraphPool, graph: object) -> list[int]:
    return [tenant.tensor.numel() // BLOCK for tenant in pool.overwritten_by(graph)]


def test_a_later_graph_gets_what_the_program_has_dropped() -> None:
    pool = GraphPool()
    kept, dropped = allocated(pool, FIRST), allocated(pool, FIRST, 3)
    del dropped
    taker = allocated(pool, SECOND, 2)
    assert places(pool, SECOND) == [(1, 3)]
    assert sizes_of_lost(pool, SECOND) == [3]
    assert sizes_of_lost(pool, FIRST) == [2]
    assert (len(kept), len(taker)) == (BLOCK, 2 * BLOCK)


def test_memory_that_the_program_holds_keeps_its_place() -> None:
    pool = GraphPool()
    held = [allocated(pool, FIRST), allocated(pool, SECOND)]
    view = held.pop(0)[3:]
    held.append(allocated(pool, SECOND))
    assert places(pool, SECOND) == [(1, 2), (2, 3)]
    assert sizes_of_lost(pool, SECOND) == []
    assert len(view) == BLOCK - 3


def test_the_smallest_place_that_is_large_enough_is_taken() -> None:
    pool = GraphPool()
    tensors = [allocated(pool, FIRST, blocks) for blocks in (4, 1, 2, 1)]
    del tensors[0], tensors[1]
    taker = allocated(pool, SECOND, 2)
    assert places(pool, SECOND) == [(5, 7)]
    assert len(taker) == 2 * BLOCK


def test_streams_and_sizes_have_places_of_their_own() -> None:
    pool = GraphPool()
    dropped = [allocated(pool, FIRST), allocated(pool, FIRST, SMALL_BYTES // ROUND_BYTES + 1)]
    dropped.clear()
    other = allocated(pool, SECOND, stream=2)
    assert sizes_of_lost(pool, SECOND) == []
    large = allocated(pool, SECOND, SMALL_BYTES // ROUND_BYTES + 1)
    assert sizes_of_lost(pool, SECOND) == [SMALL_BYTES // ROUND_BYTES + 1]
    assert len(other) < len(large)


def test_a_step_of_a_graph_holds_no_place() -> None:
    pool = GraphPool()
    tensor = allocated(pool, FIRST)
    tenant = pool.tenant(tensor.untyped_storage())
    assert tenant is not None
    step = tensor.detach()
    tenant.aliases += 1
    assert not tenant.is_free
    del tensor
    assert tenant.is_free
    assert len(step) == BLOCK


def test_a_pool_lives_as_long_as_a_graph_of_it() -> None:
    pools = GraphPools()
    pool = pools.find((0, 1))
    tensor = allocated(pool, FIRST)
    assert pools.find((0, 1)) is pool
    assert pools.tenant(tensor.untyped_storage()) is not None
    del pool
    assert pools.tenant(tensor.untyped_storage()) is None
