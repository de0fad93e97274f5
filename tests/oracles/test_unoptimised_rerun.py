"""A launch that faults on the hardware GPU only is repeated as unoptimised code."""

from dataclasses import replace

import pytest

from harness.model.launch_difference import CaseAgreement, Plainer
from harness.model.paired_run import PairedRun, PairedRunRequest, RunRequest, case_of, request_paired_run
from harness.model.run import Completed, Ending, Faulted, FaultOf, Refused, Run
from harness.oracles import registry
from harness.oracles.agreement import EXPLAINED_BY
from harness.oracles.completes import FAULTED, GONE, STAYS
from harness.oracles.order_invariance import OrderInvariance
from harness.search.judge import Judge
from tests.oracles.facts import KERNEL, launch, only_failure, run, signature
from tests.search.fakes import OP

STRAYED = Faulted(fault=FaultOf.ILLEGAL_ADDRESS, message="an illegal memory access was encountered", launch=KERNEL)
ON_BOTH = CaseAgreement(gpu="NVIDIA H200", launches=3)
HARDWARE_FAULT = replace(
    run(launches=(launch(),), engine="cuda,virtual"), ending=STRAYED, results=(), agreement=ON_BOTH
)
COMPLETES = registry.find("completes")


def again(ending: Ending, *skipped: tuple[str, str], launches: int = 4) -> Run:
    agreement = replace(ON_BOTH, launches=launches, skipped=skipped)
    return PairedRun(case=HARDWARE_FAULT.case, engine="cuda,virtual", ending=ending, agreement=agreement)


def test_a_fault_on_hardware_only_requests_an_unoptimised_rerun() -> None:
    (case,) = registry.paired_runs(HARDWARE_FAULT, (COMPLETES, OrderInvariance()))
    assert case == HARDWARE_FAULT.case
    assert request_paired_run(HARDWARE_FAULT, case).plainer is Plainer.UNOPTIMISED


@pytest.mark.parametrize(
    "other",
    [
        replace(HARDWARE_FAULT, agreement=None),
        replace(HARDWARE_FAULT, ending=Completed()),
        replace(HARDWARE_FAULT, ending=replace(STRAYED, launch=None)),
    ],
    ids=["on one GPU", "completed", "no kernel"],
)
def test_other_endings_request_no_unoptimised_rerun(other: Run) -> None:
    assert registry.paired_runs(other, (COMPLETES,)) == ()
    assert request_paired_run(other, other.case).plainer is None


@pytest.mark.parametrize(
    ("paired_run", "said", "meaning"),
    [
        (again(Completed()), GONE, EXPLAINED_BY[Plainer.UNOPTIMISED]),
        (again(Refused(message="RuntimeError: not on Hopper")), GONE, EXPLAINED_BY[Plainer.UNOPTIMISED]),
        (again(replace(STRAYED, launch="a_later_kernel")), GONE, EXPLAINED_BY[Plainer.UNOPTIMISED]),
        (again(STRAYED, launches=3), STAYS, FAULTED),
        (again(STRAYED, launches=5), STAYS, FAULTED),
        (again(Refused(message="RuntimeError: not so often"), launches=3), "", FAULTED),
        (again(Completed(), (KERNEL, "the real GPU cannot: out of resource: shared memory")), "", FAULTED),
        (again(Completed(), ("another_kernel", "memory saw Stray")), GONE, EXPLAINED_BY[Plainer.UNOPTIMISED]),
    ],
    ids=[
        "gone",
        "refused later on",
        "another kernel faults later on",
        "the same",
        "the same, in a later launch",
        "refused before",
        "launch skipped",
        "another launch skipped",
    ],
)
def test_the_failure_reports_the_unoptimised_rerun(paired_run: Run, said: str, meaning: str) -> None:
    fail = only_failure(COMPLETES, HARDWARE_FAULT, paired_run)
    assert fail.signature == signature("completes", place="illegal memory access", kernel=KERNEL)
    assert fail.message == f"illegal memory access in {KERNEL}: an illegal memory access was encountered{said}"
    assert fail.meaning == meaning


def test_examining_a_case_runs_and_reports_the_unoptimised_build() -> None:
    requests = list[RunRequest]()

    def execute(request: RunRequest) -> Run:
        requests.append(request)
        return again(Completed()) if isinstance(request, PairedRunRequest) else HARDWARE_FAULT

    (fail,) = Judge().only("completes").examine(OP, HARDWARE_FAULT.case, execute).fails
    assert [case_of(request) for request in requests] == [HARDWARE_FAULT.case] * 2
    assert fail.message.endswith(GONE)
