"""One report of many: of the chunks of a divided search, or of searches on several machines.

Counts and times are added up.  Findings of one signature are one finding, with the cases of all; so are findings whose
place, idiom or exception proves that they have one cause.  Nothing depends on the order in which reports arrived.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from harness.documents.campaign import CampaignReport
from harness.documents.chunk import ChunkReport, ShardReport, shard_of
from harness.errors import ReplayError, UsageError
from harness.findings import store
from harness.findings.campaign_report import concluded
from harness.findings.known_issues import NO_ISSUES, KnownIssues
from harness.model.finding import Finding, Symptom
from harness.model.merging import merged
from harness.model.verdict import Signature
from harness.search.causes import Suspect, causes_of
from harness.search.miscompilations import merged_miscompilations

LISTED = 6
"""How many missing chunks of one shard are named one by one."""


def merge(reports: Sequence[CampaignReport], issues: KnownIssues = NO_ISSUES) -> CampaignReport:
    """Return the report of several searches together; there is at least one.

    A build that several of them compiled counts in each.
    """
    report = replace(
        merged(reports),
        findings=merge_findings(finding for report in reports for finding in report.findings),
        gpu_wait_share=_gpu_wait_share(reports),
    )
    return concluded(report, issues)


def merge_chunks(reports: Iterable[ChunkReport], issues: KnownIssues = NO_ISSUES) -> CampaignReport:
    """Return the report of the chunks of one search.  A chunk that ran twice counts once."""
    chosen = chosen_chunks(reports)
    merged = merge([report.report for report in chosen], issues)
    return replace(merged, seed=chosen[0].chunk.search_seed)


def merge_documents(
    documents: Sequence[ShardReport | CampaignReport], issues: KnownIssues = NO_ISSUES
) -> CampaignReport:
    """Return the report of shards and of whole searches together.  One that is given twice counts once.

    Raises:
        UsageError: no chunk of the shards has run.
    """
    shards: dict[str, list[ShardReport]] = {}
    reports: list[CampaignReport] = []
    for document in documents:
        if isinstance(document, ShardReport):
            shards.setdefault(document.search, []).append(document)
        elif document not in reports:
            reports.append(document)
    reports += [merge_shards(some) for some in shards.values() if any(shard.chunks for shard in some)]
    if not reports:
        raise UsageError("no chunk of these shards has run: there is nothing to merge")
    silent = (part for some in shards.values() if not any(shard.chunks for shard in some) for part in _missing(some))
    merged = merge(reports, issues)
    return replace(merged, missing=(*merged.missing, *silent))


def report_in(document: CampaignReport | ShardReport) -> CampaignReport:
    """Return the report that a document is, or that of all chunks in it.

    Raises:
        ReplayError: no chunk of the shard has run.
    """
    if isinstance(document, CampaignReport):
        return document
    if not document.chunks:
        raise ReplayError("the report of a shard of which no chunk has run")
    return merge_chunks(document.chunks)


def chosen_chunks(reports: Iterable[ChunkReport]) -> list[ChunkReport]:
    """Return one report of each chunk, in the order of the search: the one with the most cases, a whole one first."""
    best: dict[str, ChunkReport] = {}
    for report in reports:
        known = best.get(report.chunk.id)
        if known is None or _completeness(report) > _completeness(known):
            best[report.chunk.id] = report
    return sorted(best.values(), key=lambda report: (report.chunk.search, report.chunk.number))


def merge_shards(shards: Sequence[ShardReport], issues: KnownIssues = NO_ISSUES) -> CampaignReport:
    """Return the report of the shards of one search.  A missing shard or chunk is named in `missing`."""
    reports = [report for shard in shards for report in shard.chunks]
    return replace(merge_chunks(reports, issues), missing=tuple(_missing(shards)))


def _missing(shards: Sequence[ShardReport]) -> Iterator[str]:
    """Yield the shards without a report, and the chunks that the others left."""
    ran = {report.chunk.number for shard in shards for report in shard.chunks}
    missing = [number for number in range(1, shards[0].chunk_count + 1) if number not in ran]
    counts = {shard.shard_count for shard in shards}
    count = counts.pop() if len(counts) == 1 else 0
    have = {shard.shard for shard in shards}
    by_shard: dict[int, list[int]] = {}
    for number in missing:
        shard = shard_of(number, count) if count else 0
        by_shard.setdefault(0 if shard in have else shard, []).append(number)
    for shard, numbers in sorted(by_shard.items()):
        of = f"{len(numbers)} of {shards[0].chunk_count} chunks"
        yield f"shard {shard} of {count} ({of})" if shard else _listed(numbers)


def _listed(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - LISTED} more" if len(numbers) > LISTED else ""
    return f"chunk{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers[:LISTED]))}{more}"


def _completeness(report: ChunkReport) -> tuple[bool, int]:
    return report.is_whole, report.report.cases


# --- findings --------------------------------------------------------------------------------------------------------


def merge_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return one finding for each bug, in the order in which the bugs were first seen."""
    alike: dict[Signature, list[Finding]] = {}
    for finding in findings:
        alike.setdefault(finding.fail.signature, []).append(finding)
    merged = {signature: _merged(same) for signature, same in alike.items()}
    joined = _joined({signature: _without_own(finding, merged) for signature, finding in merged.items()})
    for signature, finding in merged_miscompilations(joined).items():
        for other in finding.signatures[1:]:
            joined.pop(other, None)
        joined[signature] = finding
    return tuple(joined.values())


def _merged(same: Sequence[Finding]) -> Finding:
    """Return the finding with the smallest case, with what the others add."""
    best = min(same, key=store.rank)
    cases = {case.digest: case for finding in same for case in finding.cases}
    return replace(
        best,
        first_case=same[0].first_case,
        first_seen=same[0].first_seen,
        first_pictures=same[0].first_pictures,
        sightings=sum(finding.sightings for finding in same),
        cases=tuple(cases.values()),
        libraries=tuple(dict.fromkeys(library for finding in same for library in finding.libraries)),
        symptoms=_symptoms(symptom for finding in same for symptom in finding.symptoms),
    )


def _without_own(finding: Finding, merged: Mapping[Signature, Finding]) -> Finding:
    """Drop the symptoms that were seen apart from the finding: elsewhere, each is a confirmed finding of its own."""
    symptoms = (
        symptom
        for symptom in finding.symptoms
        if symptom.signature not in merged or not merged[symptom.signature].confirmed
    )
    return replace(finding, symptoms=tuple(symptoms))


def _joined(merged: Mapping[Signature, Finding]) -> dict[Signature, Finding]:
    """Join the findings of one cause, as far as their place, idiom or exception proves it."""
    best_first = sorted(merged.values(), key=lambda bug: not bug.confirmed)
    suspects = (Suspect(fail=bug.fail, cases={case.digest for case in bug.cases}) for bug in best_first)
    causes = {cause.head: cause.symptoms for cause in causes_of(suspects)}
    symptom_of = {symptom: head for head, symptoms in causes.items() for symptom in symptoms}
    for finding in best_first:  # what was not tried, and is a symptom elsewhere
        owner = next((bug for bug in best_first if finding.fail.signature in bug.signatures[1:]), None)
        if owner is not None and not finding.confirmed and owner.fail.signature not in symptom_of:
            symptom_of.setdefault(finding.fail.signature, owner.fail.signature)
    joined = {signature: finding for signature, finding in merged.items() if signature not in symptom_of}
    for signature, finding in merged.items():
        head = symptom_of.get(signature)
        if head in joined:
            own = Symptom(
                signature=signature,
                message=finding.fail.message,
                source=finding.fail.source,
                sightings=finding.sightings,
            )
            joined[head] = replace(
                joined[head], symptoms=_symptoms((*joined[head].symptoms, own, *finding.symptoms), but=head)
            )
    return joined


def _symptoms(symptoms: Iterable[Symptom], but: Signature | None = None) -> tuple[Symptom, ...]:
    """Return each symptom once, with the sightings of all its mentions."""
    by_signature: dict[Signature, Symptom] = {}
    for symptom in symptoms:
        if symptom.signature != but:
            known = by_signature.get(symptom.signature)
            sightings = symptom.sightings + (known.sightings if known else 0)
            by_signature[symptom.signature] = replace(known or symptom, sightings=sightings)
    return tuple(by_signature.values())


def _gpu_wait_share(reports: Iterable[CampaignReport]) -> float | None:
    shares = [(report.gpu_wait_share, report.seconds) for report in reports if report.gpu_wait_share is not None]
    seconds = sum(seconds for _, seconds in shares)
    return sum(share * seconds for share, seconds in shares) / seconds if seconds else None
