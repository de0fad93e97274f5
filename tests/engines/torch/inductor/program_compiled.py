"""Prints what compiled programs do on the emulated device whose slug is the argument, as JSON."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from harness import catalogue
from harness.engines.virtual.engine import VirtualEngine
from harness.model.case import Case, DType
from harness.model.op import Op
from harness.model.run import Run
from harness.model.verdict import Fail
from harness.search.judge import Judge
from harness.suite import compiled, integers, op, tensor, width

device = catalogue.find(sys.argv[1])
engine = VirtualEngine()
engine.prepare()
engine.emulate(device)


def normalised(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 2, -1)


def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ y)


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    torch._dynamo.graph_break()
    return y + 1


def looked_up(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x[index + 1] * 2


def constant(x: torch.Tensor) -> torch.Tensor:
    return x * torch.tensor([float(number) for number in range(16)])


def on_cuda(x: torch.Tensor) -> torch.Tensor:
    return x.to("cuda") + torch.ones(16, device="cuda") + torch.zeros(16).cuda()


def one_more(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def op_of(
    program: Callable[..., Any], inputs: dict[str, Any], definition: Callable[..., Any] | None = None, **options: Any
) -> Op:
    """Return the op of a program, which is its own definition unless there is another one."""
    declared = op(dims={"T": width(), "D": width()}, inputs=inputs)(compiled(program, **options))
    declared.reference(definition or program)
    return declared.complete("programs.py")


def facts(declared: Op, *, configs: dict[str, int] | None = None, rows: int = 40) -> dict[str, Any]:
    case = Case(op=declared.id, dims={"T": rows, "D": 16}, dtype=DType.FP32, device=device, configs=configs or {})
    run = engine.run(declared, case)
    return {"ending": type(run.ending).__name__, **_of_run(declared, run)}


def _of_run(declared: Op, run: Run) -> dict[str, Any]:
    judged = Judge().judge(declared, run, {})
    return {
        "kernels": [launch.kernel for launch in run.launches],
        "configs": [(launch.config_index, launch.config_count) for launch in run.launches],
        "results": [result.name for result in run.results],
        "failures": [str(one.signature) for one in judged.verdicts if isinstance(one, Fail)],
        "eager": dict(run.eager),
        "files": sorted({event.site.source.file for event in run.memory if event.site.source is not None}),
        "why": str(getattr(run.ending, "message", getattr(run.ending, "what", ""))),
    }


matrix = {"x": tensor("T", "D")}
rows = op_of(normalised, matrix)
products = {"x": tensor("T", "D"), "y": tensor("D", "T")}
tuned = op_of(product, products, mode="max-autotune-no-cudagraphs")
first = facts(tuned)
table = {"x": tensor("T", "D"), "index": integers(8, high="T")}
lookup = facts(op_of(looked_up, table), rows=3)
file = next(one for one in lookup["files"] if Path(one).stem == lookup["kernels"][1])
report = {
    "rows": facts(rows),
    "again": facts(rows),
    "dynamic": facts(op_of(normalised, matrix, dynamic=True)),
    "product": facts(op_of(product, products)),
    "tuned": first,
    "another": facts(tuned, configs={first["kernels"][0]: 1}),
    "broken": facts(op_of(broken, matrix)),
    "lookup": {**lookup, "file": Path(file).name, "begins": Path(file).read_text(encoding="utf-8").splitlines()[0]},
    "on_cuda": facts(op_of(on_cuda, matrix, one_more)),
    "constant": facts(op_of(constant, matrix)),
}
sys.stdout.write(f"{json.dumps(report)}\n")
sys.stdout.flush()
os._exit(0)
