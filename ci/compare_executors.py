"""Runs cases of suites in native code and in the machine, and prints for each kernel how far the two agree.

`compare_executors.py --with fla-core==0.6.0 --cases 20 suites/fla/norm.py ...`: exit status 1 where memory events
differ, or elements by more than a rounding.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import libraries
from harness.devices.catalogue import find
from harness.model.case import Case
from harness.model.run import Raised
from harness.search.launch_feedback import Hints
from harness.search.strategies import Batch
from harness.suite import load_suite
from harness.workers.spec import WorkerSpec

FURTHEST = 2.0**-7
"""A rounding of bfloat16 that fell the other way, in units of the largest element."""
MOST_UNLIKE = 1e-4
"""The share of elements that may differ at all: where float64 sums or functions round differently in their last bit."""


def main() -> int:
    """Run, compare, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suites", nargs="+")
    parser.add_argument("--with", action="append", default=[], dest="libraries", metavar="LIBRARY")
    parser.add_argument("--device", default="rtx-pro-6000")
    parser.add_argument("--cases", type=int, default=20, help="cases an op")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--op", action="append", help="only ops of this name")
    asked = parser.parse_args()
    paths = tuple(map(str, libraries.resolve(asked.libraries))) if asked.libraries else ()
    device = find(asked.device)
    drawn = {
        op.id: Batch(op=op, device=device, hints=Hints(), seed=asked.seed, size=asked.cases).draw()
        for suite in asked.suites
        for op in load_suite(suite)
        if not asked.op or op.name in asked.op
    }
    with tempfile.TemporaryDirectory(prefix="harness-compare-") as folder:
        spec = WorkerSpec(device=device, suites=tuple(asked.suites), scratch=folder, library_paths=paths)
        return _compare(spec, drawn)


def _compare(spec: WorkerSpec, drawn: Mapping[str, Sequence[Case]]) -> int:
    from harness.virtual.engine import VirtualEngine  # noqa: PLC0415 - only now does this process wear a GPU
    from harness.virtual.native.comparison import Comparison  # noqa: PLC0415
    from harness.virtual.native.policy import Executor, NativeCode  # noqa: PLC0415
    from harness.workers.zygote.loading import Loaded, load, prepare  # noqa: PLC0415

    loaded = load(spec, prepare(spec.ground))
    assert isinstance(loaded, Loaded), loaded
    assert isinstance(loaded.engine, VirtualEngine)
    comparison = Comparison(NativeCode(Executor.NATIVE, Path(spec.scratch, "native")))
    loaded.engine.execute_with(comparison)
    for name, cases in drawn.items():
        for case in cases:
            ending = loaded.engine.run(loaded.ops[name], case).ending
            if isinstance(ending, Raised) and "/harness/virtual/native/" in ending.traceback:
                print(f"{name}: {ending.kind}: {ending.message}\n{ending.traceback}")
    print(f"{'kernel':56} launches native doubts    elements  unlike  furthest  events")
    wrong = 0
    for kernel, one in sorted(comparison.kernels.items()):
        bad = one.events_unlike or one.furthest > FURTHEST or one.unlike > 1 + MOST_UNLIKE * one.elements
        wrong += bool(bad)
        print(
            f"{kernel[:56]:56} {one.launches:8} {one.native:6} {one.doubts:6} {one.elements:11} {one.unlike:7} "
            f"{one.furthest:9.1e} {one.events_unlike:7} {'WRONG ' if bad else ''}{one.declined}"
        )
    total = sum(one.launches for one in comparison.kernels.values())
    native = sum(one.native for one in comparison.kernels.values())
    print(f"{native} of {total} launches in native code; kernels on which the two part: {wrong}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # the engine that ran in this process has a thread of torch's modes, which cannot be ended
