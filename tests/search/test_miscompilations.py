"""The failures of one miscompilation become one finding with symptoms."""

from dataclasses import replace

import pytest

from harness.model.finding import Finding, ReplayCount, Symptom
from harness.model.hardware_blame import Blame, HardwareBlame
from harness.search.miscompilations import merged_miscompilations
from tests.findings.test_recorded_cases import FINDING
from tests.search.fakes import with_dims

ASSEMBLER = HardwareBlame(
    blame=Blame.ASSEMBLER,
    assembler="ptxas 12.8.93 for sm_90a",
    kernels=("norm_fwd",),
    mended_by=("ptxas 12.9.86",),
    evidence=("the virtual GPU does not show it",),
)
MENDED_UNOPTIMISED = replace(ASSEMBLER, kernels=("norm_bwd",), mended_by=("ptxas 12.8.93 -O0",))


def finding(place: str, blame: HardwareBlame | None, rows: int) -> Finding:
    fail = replace(FINDING.fail, signature=replace(FINDING.fail.signature, place=place), message=f"{place} is wrong")
    return replace(FINDING, fail=fail, hardware_blame=blame, cases=(with_dims(T=rows),), sightings=1)


WRONG = finding("y", ASSEMBLER, 3)
SHRUNK = replace(finding("dx", MENDED_UNOPTIMISED, 4), repeats=ReplayCount(shown=5, runs=5))
LIBRARY = finding("db", HardwareBlame(blame=Blame.LIBRARY), 5)
VIRTUAL = finding("dw", None, 6)


def test_failures_of_one_miscompilation_are_one_finding_with_symptoms() -> None:
    found = {one.fail.signature: one for one in (WRONG, LIBRARY, SHRUNK, VIRTUAL)}
    symptom = Symptom(signature=WRONG.fail.signature, message="y is wrong", source=WRONG.fail.source, sightings=1)
    blame = replace(ASSEMBLER, kernels=("norm_fwd", "norm_bwd"), mended_by=("ptxas 12.8.93 -O0", "ptxas 12.9.86"))
    merged = replace(
        SHRUNK, cases=(*WRONG.cases, *SHRUNK.cases), sightings=2, symptoms=(symptom,), hardware_blame=blame
    )
    assert merged_miscompilations(found) == {SHRUNK.fail.signature: merged}


def test_the_finding_that_names_kernels_stands_for_the_others() -> None:
    unnamed = replace(SHRUNK, hardware_blame=replace(MENDED_UNOPTIMISED, kernels=()))
    found = {one.fail.signature: one for one in (unnamed, WRONG)}
    ((head, merged),) = merged_miscompilations(found).items()
    assert head == WRONG.fail.signature
    assert [symptom.signature for symptom in merged.symptoms] == [unnamed.fail.signature]


@pytest.mark.parametrize("other", [LIBRARY, VIRTUAL, finding("dx", replace(ASSEMBLER, assembler="ptxas 13"), 4)])
def test_failures_with_other_causes_stay_apart(other: Finding) -> None:
    assert merged_miscompilations({one.fail.signature: one for one in (WRONG, other)}) == {}
