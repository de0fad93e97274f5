"""Prints, as JSON, the reruns of a case whose rerun with other undefined lanes raises before it autotunes."""

import json
import os
import sys
from pathlib import Path

import torch

from harness import catalogue
from harness.engines.virtual.engine import VirtualEngine
from harness.engines.virtual.launches import Launches
from harness.model.case import Case, DType
from harness.model.ending import Ending
from harness.suite import beside, op, tensor, tokens

PLANTED = Path(__file__).parents[3] / "suites" / "planted" / "suite.py"
MOST = 50.0
"""Larger than a sum of three values, smaller than what other undefined lanes add to it."""

handlers: list[Launches] = []


def remembered(launches: Launches) -> Launches:
    handlers.append(launches)
    return launches


@op(dims={"T": tokens(256)}, inputs={"x": tensor("T", grad=False)}, dtypes=(DType.FP32,))
def totals(x: torch.Tensor) -> torch.Tensor:
    if float(beside(str(PLANTED), "kernels/undefined_lanes.py").total(x, filled=False)) > MOST:
        raise ValueError("a lane beyond the end counts")
    return beside(str(PLANTED), "kernels/tuned_sums.py").total(x, resets=True)


@totals.reference
def definition(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0, keepdim=True)


def ending_of(ending: Ending | None) -> str:
    return type(ending).__name__


device = catalogue.find("b200")
engine = VirtualEngine(remembered)
engine.prepare()
engine.emulate(device)
before = handlers[0].case_launches
declared = totals.complete("programs.py")
run = engine.run(declared, Case(op=declared.id, dims={"T": 3}, dtype=DType.FP32, device=device))
facts = {
    "ending": ending_of(run.ending),
    "refilled": ending_of(run.refilled and run.refilled.ending),
    "tuned": ending_of(run.tuned and run.tuned.ending),
    "launches": [launch.kernel for launch in run.launches],
    "is_timed_apart": run.seconds.get("other lanes", 0.0) > 0,
    "is_restored": handlers[0].case_launches is before,
}
sys.stdout.write(json.dumps(facts))
sys.stdout.flush()
os._exit(0)  # the engine leaves a thread with modes of torch, which the interpreter cannot end
