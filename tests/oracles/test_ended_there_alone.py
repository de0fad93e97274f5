"""A launch that costs the real GPU its context, where the virtual one saw nothing, is made again as plainer code."""

from dataclasses import replace

import pytest

from harness.model.launch_difference import CaseAgreement, Plainer
from harness.model.paired_run import PairedRun, PairedRunRequest, RunRequest, beside, case_of
from harness.model.run import Completed, Ending, Faulted, FaultOf, Refused, Run
from harness.oracles import registry
from harness.oracles.agreement import WITHOUT
from harness.oracles.completes import FAULTED, IS_GONE, STAYS
from harness.oracles.order_invariance import OrderInvariance
from harness.search.judge import Judge
from tests.oracles.facts import KERNEL, launch, only_failure, run, signature
from tests.search.fakes import OP

pytestmark = pytest.mark.once

STRAYED = Faulted(fault=FaultOf.ILLEGAL_ADDRESS, message="an illegal memory access was encountered", launch=KERNEL)
ON_BOTH = CaseAgreement(gpu="NVIDIA H200", launches=3)
THERE_ALONE = replace(run(launches=(launch(),), engine="cuda,virtual"), ending=STRAYED, results=(), agreement=ON_BOTH)
COMPLETES = registry.find("completes")


def again(ending: Ending, *skipped: tuple[str, str], launches: int = 4) -> Run:
    agreement = replace(ON_BOTH, launches=launches, skipped=skipped)
    return PairedRun(case=THERE_ALONE.case, engine="cuda,virtual", ending=ending, agreement=agreement)


def test_the_case_itself_is_wanted_once_more_without_optimisation() -> None:
    (case,) = registry.companions(THERE_ALONE, (COMPLETES, OrderInvariance()))
    assert case == THERE_ALONE.case
    assert beside(THERE_ALONE, case).plainer is Plainer.UNOPTIMISED


@pytest.mark.parametrize(
    "other",
    [
        replace(THERE_ALONE, agreement=None),
        replace(THERE_ALONE, ending=Completed()),
        replace(THERE_ALONE, ending=replace(STRAYED, launch=None)),
    ],
    ids=["on one GPU", "completed", "no kernel"],
)
def test_nothing_is_wanted_once_more_where_no_launch_ended_on_the_real_gpu_alone(other: Run) -> None:
    assert registry.companions(other, (COMPLETES,)) == ()
    assert beside(other, other.case).plainer is None


@pytest.mark.parametrize(
    ("companion", "said", "meaning"),
    [
        (again(Completed()), IS_GONE, WITHOUT[Plainer.UNOPTIMISED]),
        (again(Refused(message="RuntimeError: not on Hopper")), IS_GONE, WITHOUT[Plainer.UNOPTIMISED]),
        (again(replace(STRAYED, launch="a_later_kernel")), IS_GONE, WITHOUT[Plainer.UNOPTIMISED]),
        (again(STRAYED, launches=3), STAYS, FAULTED),
        (again(STRAYED, launches=5), STAYS, FAULTED),
        (again(Refused(message="RuntimeError: not so often"), launches=3), "", FAULTED),
        (again(Completed(), (KERNEL, "the real GPU cannot: out of resource: shared memory")), "", FAULTED),
        (again(Completed(), ("another_kernel", "memory saw Stray")), IS_GONE, WITHOUT[Plainer.UNOPTIMISED]),
    ],
    ids=[
        "gone",
        "declined later on",
        "another ends so later on",
        "the same",
        "the same, in a later launch",
        "declined before",
        "not made",
        "another was not made",
    ],
)
def test_the_finding_says_what_became_of_the_launch_as_plainer_code(companion: Run, said: str, meaning: str) -> None:
    fail = only_failure(COMPLETES, THERE_ALONE, companion)
    assert fail.signature == signature("completes", place="illegal memory access", kernel=KERNEL)
    assert fail.message == f"illegal memory access in {KERNEL}: an illegal memory access was encountered{said}"
    assert fail.meaning == meaning


def test_who_examines_a_case_has_it_run_so_built_and_told() -> None:
    asked = list[RunRequest]()

    def execute(wanted: RunRequest) -> Run:
        asked.append(wanted)
        return again(Completed()) if isinstance(wanted, PairedRunRequest) else THERE_ALONE

    (fail,) = Judge().only("completes").examine(OP, THERE_ALONE.case, execute).fails
    assert [case_of(wanted) for wanted in asked] == [THERE_ALONE.case] * 2
    assert fail.message.endswith(IS_GONE)
