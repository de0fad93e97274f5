"""Reports of several machines become one: counts are added up, and a bug is one finding."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from itertools import permutations

import pytest

from harness.documents.chunk import Chunk, ChunkReport, ShardReport
from harness.errors import UsageError
from harness.findings.known_issues import KnownIssue, KnownIssues
from harness.findings.report_merging import merge, merge_chunks, merge_documents, merge_findings, merge_shards
from harness.model.finding import Finding, Symptom
from harness.model.plan import Plan
from harness.model.verdict import Signature
from tests.reports.samples import CAUSE, LINK, OLDER, OVERLAP, REPORT, STRAY, VALUES
from tests.search.fakes import with_dims


def chunk(number: int, count: int = 4) -> Chunk:
    return Chunk(
        search="0123abcd",
        number=number,
        count=count,
        search_seed=3,
        plan=Plan(suites=("suites/a.py",), op=("op",), device="h200", cases=8, triage_seconds=60.0, seed=number),
    )


def reported(number: int, *findings: Finding, cases: int = 60, interrupted: bool = False) -> ChunkReport:
    report = replace(REPORT, findings=findings, cases=cases, interrupted=interrupted)
    return ChunkReport(chunk=chunk(number), report=report)


def shard(number: int, *chunks: ChunkReport, count: int = 2) -> ShardReport:
    return ShardReport(search="0123abcd", chunk_count=4, shard=number, shard_count=count, chunks=chunks)


def signatures(findings: Iterable[Finding]) -> list[Signature]:
    return [one.fail.signature for one in findings]


def test_counts_and_times_are_added_up() -> None:
    both = merge([REPORT, OLDER])
    assert (both.cases, both.passed, both.seconds) == (90, 80, 22.5)
    assert sum(row.cases for row in both.verdicts) == 2 * sum(row.cases for row in REPORT.verdicts)
    assert len(both.verdicts) == len(REPORT.verdicts)
    assert both.abstain_reasons == {reason: 2 * count for reason, count in REPORT.abstain_reasons.items()}
    assert both.uncompiled == {reason: 2 * count for reason, count in REPORT.uncompiled.items()}
    assert [(one.cases, one.dropped) for one in both.avoided] == [(62, 240)]


def test_a_report_alone_stays_as_it_is() -> None:
    known = KnownIssues(
        issues=(KnownIssue(signature=str(OVERLAP.fail.signature), link=LINK, expires=date(2999, 1, 1)),),
        today=date(2026, 1, 1),
    )
    assert merge([REPORT], known) == replace(REPORT, notices=())


def test_releases_that_differ_are_all_named() -> None:
    other = replace(REPORT, versions={**REPORT.versions, "triton": "3.7.0"})
    assert merge([REPORT, other]).versions == {"python": "3.11.7", "triton": "3.6.0, 3.7.0"}


def test_one_bug_is_one_finding_with_its_smallest_case() -> None:
    larger = replace(OVERLAP, case=with_dims(T=4000), sightings=5)
    unconfirmed = replace(OVERLAP, case=with_dims(T=1), confirmed=False, sightings=7)
    (merged,) = merge_findings([larger, OVERLAP, unconfirmed])
    assert (merged.case, merged.first_case) == (OVERLAP.case, larger.first_case)
    assert merged.sightings == larger.sightings + OVERLAP.sightings + unconfirmed.sightings


def test_a_symptom_that_is_a_finding_elsewhere_stays_one() -> None:
    found = merge_findings([CAUSE, VALUES])
    assert signatures(found) == signatures([CAUSE, VALUES])
    assert [one.signature for one in found[0].symptoms] == [STRAY.fail.signature]


def test_a_symptom_that_was_not_tried_elsewhere_joins_its_cause() -> None:
    (found,) = merge_findings([STRAY, CAUSE])
    assert found.fail.signature == CAUSE.fail.signature
    counts = {one.signature: one.sightings for one in found.symptoms}
    assert counts[STRAY.fail.signature] == STRAY.sightings + 1


def test_an_idiom_of_several_kernels_is_one_finding() -> None:
    other_signature = replace(OVERLAP.fail.signature, kernel="other_kernel", op="suites/a.py:other")
    other = replace(CAUSE, fail=replace(CAUSE.fail, signature=other_signature), symptoms=())
    (found,) = merge_findings([replace(CAUSE, symptoms=()), other])
    assert found.symptoms == (
        Symptom(
            signature=other_signature, message=other.fail.message, source=other.fail.source, sightings=other.sightings
        ),
    )


def test_the_order_of_arrival_decides_nothing() -> None:
    chunks = [reported(1, OVERLAP), reported(2, replace(OVERLAP, case=with_dims(T=2)), VALUES), reported(3, STRAY)]
    assert len({repr(merge_chunks(some)) for some in permutations(chunks)}) == 1
    assert merge_chunks(chunks).seed == 3


def test_of_a_chunk_that_ran_twice_the_whole_report_counts() -> None:
    cut, whole = reported(1, cases=70, interrupted=True), reported(1, VALUES)
    for some in ([cut, whole], [whole, cut], [whole, whole, cut]):
        merged = merge_chunks(some)
        assert (merged.cases, merged.interrupted, signatures(merged.findings)) == (60, False, signatures([VALUES]))


def test_missing_shards_and_chunks_are_named() -> None:
    first = shard(1, reported(1), reported(3))
    assert merge_shards([first]).missing == ("shard 2 of 2 (2 of 4 chunks)",)
    assert merge_shards([first, shard(2, reported(2))]).missing == ("chunk 4",)
    assert merge_shards([first, shard(2, reported(2), reported(4))]).missing == ()
    assert merge_shards([first, shard(2, reported(2), count=3)]).missing == ("chunk 4",)


def test_shards_and_whole_searches_merge_into_one() -> None:
    shards = [shard(1, reported(1), reported(3)), shard(2, reported(2), reported(4))]
    assert merge_documents([*shards, OLDER, OLDER, shards[0]]).cases == 4 * 60 + OLDER.cases


def test_shards_of_which_no_chunk_ran_are_refused() -> None:
    with pytest.raises(UsageError, match="no chunk of these shards has run"):
        merge_documents([shard(1)])


def test_a_search_of_which_nothing_ran_is_missing_beside_others() -> None:
    silent = replace(shard(1), search="other")
    assert merge_documents([OLDER, silent]).missing == ("chunks 1, 3", "shard 2 of 2 (2 of 4 chunks)")
