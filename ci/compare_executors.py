"""Compare the two executors of the virtual GPU, native code and the NumPy machine, on cases of suites.

`compare_executors.py --with fla-core==0.6.0 --cases 20 suites/fla/norm.py ...` prints a line for each kernel.  The exit
status is 1 if memory events or executed lines differ, or elements differ by more than a rounding.

With `--fallbacks` it runs the cases once, as far as it goes in native code, and lists what is left to the machine: the
operation or another reason, the launches, their share of the time of all launches, and the kernels.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness import libraries
from harness.catalogue import find
from harness.model.case import Case
from harness.model.run import Raised
from harness.search.launch_feedback import LaunchFeedback
from harness.search.strategies import Batch
from harness.settings import Settings
from harness.suite import load_suite
from harness.workers.spec import WorkerSpec

if TYPE_CHECKING:
    from harness.engines.virtual.native.native_code import NativeBackend, NativeCode

LARGEST_DIFFERENCE = 2.0**-7
"""The largest difference of an element, in units of the largest element: one rounding of bfloat16."""
MOST_DIFFERING = 1e-4
"""The largest share of elements that differ: float64 sums and functions may round differently in their last bit."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suites", nargs="+")
    parser.add_argument("--with", action="append", default=[], dest="libraries", metavar="LIBRARY")
    parser.add_argument("--device", default="rtx-pro-6000")
    parser.add_argument("--cases", type=int, default=20, help="cases of each op")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--op", action="append", help="only ops of this name")
    parser.add_argument("--fallbacks", action="store_true", help="list what native code leaves to the machine")
    given = parser.parse_args()
    paths = libraries.resolve(given.libraries, cache=Settings.from_environment(os.environ).cache)
    device = find(given.device)
    drawn = {
        op.id: Batch(op=op, device=device, feedback=LaunchFeedback(), seed=given.seed, size=given.cases).draw()
        for suite in given.suites
        for op in load_suite(suite)
        if not given.op or op.name in given.op
    }
    with tempfile.TemporaryDirectory(prefix="harness-compare-") as folder:
        spec = WorkerSpec(device=device, suites=tuple(given.suites), scratch=folder, library_paths=paths)
        return (_list_fallbacks if given.fallbacks else _compare)(spec, drawn)


def _run(
    spec: WorkerSpec, drawn: Mapping[str, Sequence[Case]], executing: "Callable[[NativeCode], NativeBackend]"
) -> None:
    """Run the cases with a backend around native code that is waited for."""
    from harness.engines.virtual.engine import VirtualEngine  # noqa: PLC0415 - starts to emulate a GPU
    from harness.engines.virtual.native.native_code import ExecutorMode, NativeCode  # noqa: PLC0415
    from harness.workers.zygote.loading import Loaded, load, prepare  # noqa: PLC0415

    loaded = load(spec, prepare(spec.engine))
    assert isinstance(loaded, Loaded), loaded
    assert isinstance(loaded.engine, VirtualEngine)
    loaded.engine.execute_with(executing(NativeCode(ExecutorMode.NATIVE, Path(spec.scratch, "native"))))
    for name, cases in drawn.items():
        for case in cases:
            ending = loaded.engine.run(loaded.ops[name], case).ending
            if isinstance(ending, Raised) and "/harness/engines/virtual/native/" in ending.traceback:
                print(f"{name}: {ending.kind}: {ending.message}\n{ending.traceback}")


def _list_fallbacks(spec: WorkerSpec, drawn: Mapping[str, Sequence[Case]]) -> int:
    from harness.engines.virtual.native.fallbacks import NATIVE, Fallbacks  # noqa: PLC0415 - imports torch

    lists: list[Fallbacks] = []

    def listing(code: "NativeCode") -> Fallbacks:
        lists.append(Fallbacks(code))
        return lists[-1]

    _run(spec, drawn, listing)
    print(f"{'launches':>8} {'time':>6}  left to the machine: reason, kernels")
    for fallback, share in lists[0].table():
        reason = "none: native code" if fallback.reason == NATIVE else fallback.reason
        kernels = "" if fallback.reason == NATIVE else f": {', '.join(sorted(fallback.kernels))}"
        print(f"{fallback.launches:8} {100 * share:5.1f}%  {reason}{kernels}", flush=True)
    return 0


def _compare(spec: WorkerSpec, drawn: Mapping[str, Sequence[Case]]) -> int:
    from harness.engines.virtual.native.comparison import Comparison  # noqa: PLC0415 - imports torch

    comparisons: list[Comparison] = []

    def comparing(code: "NativeCode") -> Comparison:
        comparisons.append(Comparison(code))
        return comparisons[-1]

    _run(spec, drawn, comparing)
    (comparison,) = comparisons
    print(f"{'kernel':56} launches native bailouts  elements  differ    largest  events   lines")
    wrong = 0
    for kernel, one in sorted(comparison.kernels.items()):
        bad = (
            one.launches_with_other_events
            or one.launches_with_other_lines
            or one.largest_difference > LARGEST_DIFFERENCE
            or one.differing_elements > 1 + MOST_DIFFERING * one.elements
        )
        wrong += bool(bad)
        print(
            f"{kernel[:56]:56} {one.launches:8} {one.native:6} {one.bailouts:8} {one.elements:9} "
            f"{one.differing_elements:7} {one.largest_difference:10.1e} {one.launches_with_other_events:7} "
            f"{one.launches_with_other_lines:7} "
            f"{'WRONG ' if bad else ''}{one.declined}"
        )
    total = sum(one.launches for one in comparison.kernels.values())
    native = sum(one.native for one in comparison.kernels.values())
    print(f"{native} of {total} launches in native code; kernels with differences: {wrong}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # the engine leaves a thread with modes of torch, which the interpreter cannot end
