"""The table of agreement between both GPUs."""

from dataclasses import replace

from harness.model.launch_difference import CaseAgreement, Difference, Plainer
from harness.model.paired_run import PairedRun
from harness.model.run import Completed, Crashed, Faulted, FaultOf, Run
from harness.reports.conformance import Compared, conclusion, lines
from tests.oracles.facts import launch, run

EQUAL = Difference(kernel="norm_fwd", argument="x", dtype="float32", elements=64, differing=0, ulps=0.0, scaled=0.0)
ROUNDED = replace(EQUAL, argument="y", differing=5, ulps=1.0, scaled=1e-7)
CANCELLED = replace(EQUAL, argument="dx", differing=5, ulps=1e6, scaled=0.5, doubt=0.25)
WRONG = replace(EQUAL, argument="dx", differing=1, ulps=1e6, scaled=0.5, doubt=9.0)
MISCOUNTED = replace(EQUAL, argument="counts", dtype="int32", differing=1, ulps=1.0, scaled=0.1)
MISASSEMBLED = replace(WRONG, agrees_once=Plainer.UNOPTIMISED)


def both(*found: Difference, skipped: tuple[tuple[str, str], ...] = ()) -> Run:
    seen = CaseAgreement(gpu="NVIDIA H200", launches=1, differences=found, skipped=skipped)
    return replace(run(launches=(launch(),), engine="cuda,virtual"), agreement=seen)


def compared(*runs: Run) -> Compared:
    made = Compared()
    for one in runs:
        made.add(one)
    return made


def test_arguments_that_ever_differ_have_a_row_each() -> None:
    printed = list(lines(compared(both(EQUAL, ROUNDED), both(EQUAL, EQUAL, ROUNDED), both(CANCELLED))))
    assert printed == [
        "kernel    argument  type     tensors  equal  of the largest  of rounding",
        "norm_fwd  y         float32        2      0           1e-07            -",
        "norm_fwd  dx        float32        1      0             0.5         0.25",
        "",
        "3 launches of 1 kernel in 3 cases, repeated on the NVIDIA H200: of 6 tensors 3 are equal bit for bit, 2 "
        "differ by a few roundings, 1 by what rounding explains, 0 by a compiler error, and 0 unexplained; "
        "0 cases broke off, 0 of them by a compiler error",
    ]


def test_agreement_needs_comparisons_and_no_finding() -> None:
    crashed = replace(both(EQUAL), ending=Crashed(signal="SIGSEGV", status=None, log_tail=""))
    assert compared(both(EQUAL), both(CANCELLED)).agrees
    assert not compared().agrees
    assert not compared(both(EQUAL), both(WRONG)).agrees
    assert not compared(both(EQUAL), both(MISASSEMBLED)).agrees
    assert not compared(both(EQUAL), crashed).agrees


def test_differences_and_crashes_are_listed_with_their_case() -> None:
    crashed = replace(both(), ending=Crashed(signal="SIGSEGV", status=None, log_tail=""))
    printed = list(lines(compared(both(WRONG, skipped=(("norm_bwd", "memory saw Stray"),)), crashed)))
    assert "1 launch not compared: memory saw Stray" in printed
    assert f"1 case of layer_norm: the process died of SIGSEGV; {crashed.case}" in printed
    (unexplained,) = (line for line in printed if line.startswith("unexplained"))
    assert unexplained.startswith("unexplained: norm_fwd: 1 of 64 elements of dx differ on the NVIDIA H200")
    assert str(both().case) in unexplained
    assert conclusion(compared()).startswith("0 launches of 0 kernels in 0 cases, repeated on the hardware GPU")


def test_equal_crashes_are_listed_once_with_the_first_case() -> None:
    said = "ptx.cc:7: bool fits(): Assertion `registers < 256' failed.\nFatal Python error: Aborted\n"
    aborted = replace(both(), ending=Crashed(signal="SIGABRT", status=None, log_tail=said))
    other = replace(aborted, case=replace(aborted.case, seed=99))
    (line,) = (line for line in lines(compared(aborted, other)) if "SIGABRT" in line)
    assert line.startswith("2 cases of layer_norm: the process died of SIGABRT: ")
    assert line.endswith(f"Assertion `registers < 256' failed.; {aborted.case}")


def test_compiler_errors_are_counted_apart_from_unexplained_differences() -> None:
    printed = list(lines(compared(both(MISASSEMBLED), both(CANCELLED))))
    (blamed,) = (line for line in printed if line.startswith("compiler: "))
    assert blamed == (
        "compiler: norm_fwd: 1 of 64 elements of dx differ on the NVIDIA H200, by up to 0.5 of the largest element, "
        f"9 times what random rounding explains; they agree once ptxas does not optimise; {both().case}"
    )
    assert "1 by what rounding explains, 1 by a compiler error, and 0 unexplained; 0 cases" in printed[-1]


def test_no_tensor_is_counted_twice_and_no_wrong_integer_as_a_rounding() -> None:
    said = conclusion(compared(both(EQUAL, ROUNDED, CANCELLED, WRONG, MISCOUNTED, MISASSEMBLED)))
    assert (
        "of 6 tensors 1 are equal bit for bit, 1 differ by a few roundings, 1 by what rounding explains, "
        "1 by a compiler error, and 2 unexplained; 0 cases broke off"
    ) in said


def test_a_crash_of_optimised_code_alone_counts_as_compiler_error() -> None:
    strayed = replace(
        both(),
        ending=Faulted(
            fault=FaultOf.ILLEGAL_ADDRESS, message="an illegal memory access was encountered", launch="norm_fwd"
        ),
    )
    passed = CaseAgreement(gpu="NVIDIA H200", launches=2)
    completed = PairedRun(case=strayed.case, engine="cuda,virtual", ending=Completed(), agreement=passed)
    table = Compared()
    table.add(strayed, completed)
    other = replace(strayed.case, seed=99)
    table.add(replace(strayed, case=other), replace(completed, case=other, ending=strayed.ending))
    gone, stays, last = lines(table)
    said = "1 case of layer_norm: illegal memory access in norm_fwd: an illegal memory access was encountered; "
    assert gone == f"{said}it does not end so once ptxas does not optimise; {strayed.case}"
    assert stays.startswith(f"{said}it ends so, too, where ptxas does not optimise; ")
    assert last.endswith("and 0 unexplained; 2 cases broke off, 1 of them by a compiler error")
    assert not table.agrees


def test_three_differences_of_an_argument_are_listed_and_others_counted() -> None:
    elsewhere = replace(WRONG, kernel="norm_bwd")
    printed = [line for line in lines(compared(*[both(WRONG)] * 5, both(elsewhere))) if line.startswith("unexplained")]
    assert [line.split(":")[1] for line in printed] == [" norm_fwd"] * 3 + [" norm_bwd", " norm_fwd"]
    assert printed[-1] == "unexplained: norm_fwd: dx in 2 more launches"
