"""A paired run has no reference; it has tolerances of its own only if products round differently."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from harness.execution.execution import Execution
from harness.execution.execution_hooks import ObservedLaunches
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest, Sketch, request_paired_run
from harness.model.run import Completed, Result, Run
from harness.oracles.run_comparison import disagreements
from tests.execution.ops_for_tests import RMS_NORM, case

CASE = case()


def whole(precisions: tuple[str, ...]) -> tuple[Result, ...]:
    ending, results = Execution(nullcontext, launches=ObservedLaunches(dot_precisions=lambda: precisions)).run(
        RMS_NORM, CASE
    )
    assert ending == Completed()
    return results


def sketched(op: Op, own: tuple[str, ...], others: tuple[str, ...]) -> tuple[Sketch, ...]:
    execution = Execution(nullcontext, launches=ObservedLaunches(dot_precisions=lambda: own))
    ending, sketches = execution.run_paired(op, PairedRunRequest(case=CASE, dot_precisions=others))
    assert ending == Completed()
    return sketches


def no_definition(**inputs: object) -> torch.Tensor:
    raise AssertionError(f"a definition was asked for {list(inputs)}")


@pytest.mark.parametrize("precisions", [(), ("ieee",), ("ieee", "tf32")])
def test_a_paired_run_has_projections_without_a_reference(precisions: tuple[str, ...]) -> None:
    without_definition = replace(RMS_NORM, reference=no_definition)
    found = sketched(without_definition, precisions, precisions)
    expected = [replace(Sketch.of(result), tolerance=()) for result in whole(precisions)]
    assert list(found) == expected


def test_a_paired_run_that_rounds_products_differently_has_its_own_tolerances() -> None:
    assert sketched(RMS_NORM, ("tf32",), ("ieee",)) == tuple(map(Sketch.of, whole(("tf32",))))
    assert sketched(RMS_NORM, ("ieee",), ("tf32",)) == tuple(map(Sketch.of, whole(("ieee",))))


def test_the_runs_tolerance_counts_twice_if_both_round_alike() -> None:
    run = Run(case=CASE, engine="virtual", ending=Completed(), results=whole(()))
    alike = PairedRun(case=CASE, engine="virtual", ending=Completed(), sketches=sketched(RMS_NORM, (), ()))

    def moved(tolerances: float) -> PairedRun:
        first, *others = alike.sketches
        tolerance = run.results[0].sketch_tolerance[0]
        head, *tail = first.projections
        far = replace(first, projections=(head + tolerances * tolerance, *tail))
        return replace(alike, sketches=(far, *others))

    assert disagreements(run, alike) == ()
    assert disagreements(run, moved(1.9)) == ()
    (found,) = disagreements(run, moved(2.1))
    assert (found.result, [part.index for part in found.parts]) == (run.results[0], [0])


def test_the_request_has_every_dot_precision_of_the_run() -> None:
    run = Run(case=CASE, engine="virtual", ending=Completed())
    assert request_paired_run(run, CASE) == PairedRunRequest(case=CASE, dot_precisions=())
