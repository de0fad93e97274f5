"""Known issues are counted and shown, and fail nothing until they expire."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from harness.documents.campaign import KnownFinding
from harness.errors import UsageError
from harness.findings.known_issues import KnownIssue, KnownIssues, read_known_issues
from harness.model.finding import Symptom
from tests.findings.test_recorded_cases import FAIL, FINDING

TODAY = date(2026, 11, 21)
ISSUE = KnownIssue(signature=str(FAIL.signature), link="https://example.org/1", expires=date(2026, 12, 1))
TEXT = f"""
[[issue]]
signature = "{ISSUE.signature}"
link = "{ISSUE.link}"
expires = 2026-12-01
"""


def test_a_file_of_known_issues_is_read(tmp_path: Path) -> None:
    (tmp_path / "known.toml").write_text(TEXT, encoding="utf-8")
    assert read_known_issues(tmp_path / "known.toml", TODAY) == KnownIssues(issues=(ISSUE,), today=TODAY)
    assert read_known_issues(tmp_path / "none.toml", TODAY).issues == ()


def test_a_known_finding_is_named_with_its_issue() -> None:
    issues = KnownIssues(issues=(ISSUE,), today=TODAY)
    assert issues.among([FINDING]) == (
        KnownFinding(finding=FINDING.id, signature=ISSUE.signature, link=ISSUE.link, expires=ISSUE.expires),
    )
    assert issues.notices([FINDING], {ISSUE.subject}, []) == ()


def symptom(place: str) -> Symptom:
    return Symptom(signature=replace(FAIL.signature, place=place), message="seen", sightings=1)


CAUSE = replace(FINDING, symptoms=(symptom("dx"),))
IDIOM = replace(CAUSE, fail=replace(FAIL, idiom="neighbouring rows"))


def issues_of(*signatures: str) -> KnownIssues:
    return KnownIssues(issues=tuple(replace(ISSUE, signature=signature) for signature in signatures), today=TODAY)


def test_an_entry_for_a_symptom_does_not_excuse_the_cause() -> None:
    consequence = str(CAUSE.symptoms[0].signature)
    assert issues_of(consequence).among([CAUSE]) == ()
    assert issues_of(consequence).notices([CAUSE], {ISSUE.subject}, []) == ()
    assert [one.finding for one in issues_of(ISSUE.signature).among([CAUSE])] == [CAUSE.id]


def test_an_idiom_is_known_by_its_name_or_by_all_its_kernels() -> None:
    own, other, name = ISSUE.signature, str(IDIOM.symptoms[0].signature), f"{FAIL.oracle}: neighbouring rows"
    known = [bool(issues_of(*given).among([IDIOM])) for given in ((name,), (own, other), (own,), (other,))]
    assert known == [True, True, False, False]
    assert issues_of(name).notices([IDIOM], {"neighbouring"}, []) == ()


def test_an_expired_entry_excuses_nothing_and_is_reported() -> None:
    issues = KnownIssues(issues=(ISSUE,), today=ISSUE.expires)
    assert issues.among([FINDING]) == ()
    (notice,) = issues.notices([FINDING], {ISSUE.subject}, [])
    assert "expired on 2026-12-01" in notice


def test_an_entry_is_reported_if_its_kernel_ran_without_the_finding() -> None:
    issues = KnownIssues(issues=(ISSUE,), today=TODAY)
    assert issues.notices([], {"another_kernel"}, ["suites/x.py:another"]) == ()
    (notice,) = issues.notices([], {ISSUE.subject}, [])
    assert "not seen in this search" in notice


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[issue]", "known.toml: Expected"),
        (TEXT.replace("issue]]", "isue]]"), "unknown table 'isue': did you mean issue?"),
        (TEXT.replace("[[issue]]", "[issue]"), "two brackets"),
        ("issue = [1]", "two brackets"),
        (TEXT.replace("expires", "expire"), "issue 1: unknown key 'expire': did you mean expires?"),
        (TEXT.replace("expires = 2026-12-01", ""), "issue 1: expires is missing"),
        (TEXT.replace("2026-12-01", '"tomorrow"'), "issue 1: expires is not a date"),
        (TEXT.replace(f'"{ISSUE.link}"', "3"), "issue 1: link is not a string"),
    ],
)
def test_a_broken_file_is_refused_with_the_entry_at_fault(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "known.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as error:
        read_known_issues(tmp_path / "known.toml", TODAY)
    assert said in str(error.value)
