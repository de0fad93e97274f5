"""Measure what exact runs cost: `bench_exact.py FOLDER`.

It runs the same cases with and without exact runs, in this process, and compares CPU time, which other work on the
machine distorts least.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from harness import libraries
from harness.catalogue import find
from harness.engines.virtual.native.native_code import EXECUTOR_VARIABLE, ExecutorMode
from harness.execution import reruns
from harness.model.case import Case, Scale
from harness.search.launch_feedback import LaunchFeedback
from harness.search.strategies import Batch
from harness.settings import Settings
from harness.suite import load_suite
from harness.workers.spec import WorkerSpec
from harness.workers.zygote.loading import Loaded, load, prepare

SUITE = "suites/fla/norm.py"
LIBRARY = "fla-core==0.6.0"
DEVICE = "rtx-pro-6000"
CASES = 40


def main() -> None:
    """Print the figures."""
    os.environ[EXECUTOR_VARIABLE] = ExecutorMode.NUMPY  # an exact run has no native code
    folder, device = Path(sys.argv[1]), find(DEVICE)
    paths = libraries.resolve([LIBRARY], cache=Settings.from_environment(os.environ).cache)
    spec = WorkerSpec(device=device, suites=(SUITE,), scratch=str(folder), library_paths=paths)
    loaded = load(spec, prepare(spec.engine))
    assert isinstance(loaded, Loaded), loaded
    print(f"\nExact runs of {SUITE} ({LIBRARY}) on {device}, {CASES} cases of each op, CPU milliseconds a case:")
    print(f"{'':14} {'NumPy':>8} {'exact':>8} {'ratio':>8} {'case':>8} {'with all':>9} {'with a share':>13}")
    for op in load_suite(SUITE):
        drawn = Batch(op=op, device=device, feedback=LaunchFeedback(), seed=1, size=CASES).draw()
        cases = [case for case in drawn if case.scale is Scale.USUAL]

        def measured(chosen: Callable[..., bool], cases: list[Case] = cases) -> tuple[float, Counter[str]]:
            reruns.needs_exact_run = chosen
            seconds = Counter[str]()
            began = time.process_time()
            for case in cases:
                seconds.update(loaded.engine.run(loaded.ops[case.op], case).seconds)
            return 1e3 * (time.process_time() - began) / len(cases), seconds

        usual = reruns.needs_exact_run
        try:
            measured(lambda *_: True)  # compiles the kernels
            without, machine = measured(lambda *_: False)
            whole, exact = measured(lambda *_: True)
            share, _ = measured(usual)
        finally:
            reruns.needs_exact_run = usual
        numpy, exactly = (1e3 * one / len(cases) for one in (machine["execution"], exact["exact"]))
        print(
            f"{op.name:14} {numpy:8.1f} {exactly:8.1f} {exactly / numpy:8.2f} {without:8.1f} {whole:9.1f} {share:13.1f}"
            f"   the rate falls by {100 * (1 - without / share):.0f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
    os._exit(0)  # the engine leaves a thread with modes of torch, which the interpreter cannot end
