"""A search is divided into chunks that cover it once, in equal parts."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import catalogue
from harness.documents import files
from harness.documents.chunk import Chunk
from harness.fleet.chunk_plan import BLOCK_CASES, chunks_of, chunks_of_shard, options_of_chunk
from harness.model.case import Case
from harness.search.campaign_plan import CaseBudget, TimeBudget
from harness.search.options import Options
from tests.search.fakes import OP, SIMPLEST

DEVICES = catalogue.find_all("b200,h200,rtx-pro-6000")


def options(ops: int = 2, budget: CaseBudget | TimeBudget = CaseBudget(cases=600)) -> Options:  # noqa: B008 - immutable
    named = tuple(replace(OP, name=f"op{number}") for number in range(ops))
    return Options(suites=(OP.suite,), ops=named, devices=DEVICES, budget=budget, seed=7)


@given(ops=st.integers(1, 4), cases=st.integers(12, 3000), shards=st.integers(1, 20))
def test_shards_have_each_chunk_once_and_equal_numbers(ops: int, cases: int, shards: int) -> None:
    chunks = chunks_of(options(ops, CaseBudget(cases=cases)), shards)
    parts = [chunks_of_shard(chunks, number, shards) for number in range(1, shards + 1)]
    assert sorted(chunk.number for part in parts for chunk in part) == list(range(1, len(chunks) + 1))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert sum(chunk.plan.cases or 0 for chunk in chunks) == cases
    assert all(0 < (chunk.plan.cases or 0) <= BLOCK_CASES for chunk in chunks)


def test_chunks_do_not_depend_on_the_number_of_shards() -> None:
    assert chunks_of(options(), 1) == chunks_of(options(), 8)


def test_blocks_of_one_pair_have_different_seeds() -> None:
    chunks = chunks_of(options(1), 1)
    assert set(Counter(chunk.plan.device for chunk in chunks).values()) == {3}
    assert all(
        len({chunk.plan.seed for chunk in chunks if chunk.plan.device == device.slug}) == 3 for device in DEVICES
    )


def test_first_cases_go_to_the_first_chunk_of_their_op_and_device() -> None:
    def case(op: int, device: int) -> Case:
        return replace(SIMPLEST, op=replace(OP, name=f"op{op}").id, device=DEVICES[device])

    first = (case(1, 2), case(0, 0), case(1, 0))
    divided = replace(options(), first_cases=first)
    chunks = chunks_of(divided, 1)
    assert {
        (*chunk.plan.op, chunk.plan.device): chunk.plan.first_cases for chunk in chunks if chunk.plan.first_cases
    } == {
        ("op1", DEVICES[2].slug): first[:1],
        ("op0", DEVICES[0].slug): first[1:2],
        ("op1", DEVICES[0].slug): first[2:],
    }
    assert [options_of_chunk(divided, chunk).plan.first_cases for chunk in chunks] == [
        chunk.plan.first_cases for chunk in chunks
    ]
    assert [files.loads(files.dumps(chunk), Chunk) for chunk in chunks] == chunks


def test_searches_with_different_options_have_different_ids() -> None:
    plain = options()
    others = (replace(plain, seed=8), replace(plain, libraries=("a==1",)), replace(plain, oracles=("bounds",)))
    assert len({chunks_of(one, 1)[0].search for one in (plain, *others)}) == 4


def test_checkouts_in_several_folders_belong_to_one_search() -> None:
    folders = ("/builds/agent-1/norms", "/builds/agent-2/norms", "/builds/agent-1/gates")
    ids = [chunks_of(replace(options(), libraries=(folder, "a==1")), 1)[0].search for folder in folders]
    assert ids[0] == ids[1] != ids[2]


def test_the_checkout_of_a_project_may_have_another_name_on_each_machine() -> None:
    checkouts = (Path("/builds/agent-1/norms"), Path("/work"))
    searches = (replace(options(), project=path, libraries=(str(path), str(path / "src"))) for path in checkouts)
    assert len({chunks_of(search, 1)[0].search for search in searches}) == 1


@pytest.mark.parametrize("shards", [1, 2, 6, 7, 30])
def test_a_shard_takes_the_time_that_was_asked(shards: int) -> None:
    chunks = chunks_of(options(2, TimeBudget(seconds=600.0)), shards)
    for number in range(1, shards + 1):
        part = chunks_of_shard(chunks, number, shards)
        assert 0 < sum(chunk.plan.seconds or 0.0 for chunk in part) <= 600.0


def test_a_chunk_is_a_search_of_its_own() -> None:
    whole = options()
    chunk = chunks_of(whole, 1)[-1]
    alone = options_of_chunk(whole, chunk)
    assert ([op.name for op in alone.ops], alone.devices) == (["op1"], DEVICES[-1:])
    assert (alone.budget, alone.seed) == (CaseBudget(cases=chunk.plan.cases or 0), chunk.plan.seed)
