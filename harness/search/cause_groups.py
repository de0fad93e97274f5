"""The sightings of a triage in groups of one cause: the head of a group is shrunk, and the others are its symptoms.

Groups are made once every sighting was confirmed.  When the head has been shrunk, what its smallest case does not show
leaves the group.  `harness.search.causes` has the rules.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from harness.model.finding import Finding, Symptom
from harness.model.verdict import Abstain, Signature
from harness.search.campaign_statistics import Sighting
from harness.search.causes import Suspect, causes_of
from harness.search.judge import Examination
from harness.search.triage import Turns


@dataclass(slots=True, kw_only=True, eq=False)
class TriageWork:
    """One sighting, and the turns that are left of it."""

    sighting: Sighting
    turns: Turns
    has_begun: bool = False
    """True after its first turn."""
    finding: Finding | None = None
    """The latest."""
    is_symptom: bool = False
    symptoms: list["TriageWork"] = field(default_factory=list["TriageWork"])

    @property
    def signature(self) -> Signature:
        """The one that the search saw; the finding's may be another."""
        return self.sighting.fail.signature

    @property
    def whole_finding(self) -> Finding | None:
        """The latest finding, with its symptoms."""
        if self.finding is None:
            return None
        return replace(self.finding, symptoms=tuple(_symptom(symptom.sighting) for symptom in self.symptoms))


Examined = Callable[[Signature], Examination | None]
"""Returns the run of the smallest case so far that shows a failure alone; None if it was not confirmed."""


def join(works: Iterable[TriageWork], examined: Examined) -> None:
    """Group the sightings by cause."""
    by_signature = {work.signature: work for work in works}
    for cause in causes_of(_suspect(work, examined) for work in by_signature.values()):
        head = by_signature[cause.head]
        head.is_symptom = False
        head.symptoms = [by_signature[signature] for signature in cause.symptoms]
        for symptom in head.symptoms:
            symptom.is_symptom, symptom.symptoms = True, []


def split(head: TriageWork, examined: Examined) -> list[TriageWork]:
    """Let what the head no longer explains leave its group; return the heads of the groups that this makes."""
    members = [head, *head.symptoms]
    join(members, examined)
    if head.is_symptom:  # its smallest case has another failure that explains it: the group stays as it is
        for work in members:
            work.is_symptom, work.symptoms = work is not head, []
        head.symptoms = members[1:]
    return [work for work in members[1:] if not work.is_symptom]


def join_untried(pairs: Iterable[tuple[Sighting, Finding]]) -> list[tuple[Sighting, Finding]]:
    """Join the findings of an interrupted search whose place, idiom or exception proves that they have one cause."""
    in_order = sorted(pairs, key=lambda pair: not pair[1].confirmed)
    by_signature = {sighting.fail.signature: (sighting, finding) for sighting, finding in in_order}
    suspects = (Suspect(fail=sighting.fail, cases=sighting.cases.keys()) for sighting, _ in in_order)
    joined: list[tuple[Sighting, Finding]] = []
    for cause in causes_of(suspects):
        sighting, finding = by_signature[cause.head]
        joining = [by_signature[signature] for signature in cause.symptoms]
        more = (symptom for seen, known in joining for symptom in (_symptom(seen), *known.symptoms))
        joined.append((sighting, replace(finding, symptoms=(*finding.symptoms, *more))))
    return joined


def _suspect(work: TriageWork, examined: Examined) -> Suspect:
    sighting, alone = work.sighting, examined(work.signature)
    if alone is None:
        return Suspect(fail=sighting.fail, cases=sighting.cases.keys())
    return Suspect(
        fail=sighting.fail,
        cases=sighting.cases.keys(),
        seen_with=frozenset(fail.signature for fail in alone.fails),
        judged=frozenset(verdict.oracle for verdict in alone.verdicts if not isinstance(verdict, Abstain)),
        launches=alone.run.launches,
    )


def _symptom(sighting: Sighting) -> Symptom:
    fail = sighting.fail
    return Symptom(signature=fail.signature, message=fail.message, source=fail.source, sightings=sighting.count)
