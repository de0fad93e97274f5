"""Compares the virtual GPU with a real one, launch by launch: `conform.py SUITE ... --with LIBRARY --device SLUG`.

Draws cases of the suites' ops in this process, without isolation, and repeats every launch on the real GPU from the
same bytes.  The machine's GPU must be of the device's architecture.  Prints one row a kernel and argument.
"""

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from harness.cuda.beside import Beside, Difference
from harness.devices.catalogue import find
from harness.model.run import Completed, Refused, Stray
from harness.search.hints import Hints
from harness.search.strategies import Batch
from harness.suite import load_suite
from harness.virtual.engine import VirtualEngine
from harness.virtual.launches import Launches


def main() -> int:
    """Print the table; 1 where a launch of integers differs or a case did not run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="+")
    parser.add_argument("--with", dest="libraries", action="append", default=[], help="a folder to import from")
    parser.add_argument("--device", default="h200")
    parser.add_argument("--cases", type=int, default=10, help="for each op")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    device = find(options.device)
    handlers: list[Beside] = []

    def around(launches: Launches) -> Beside:
        def strayed() -> int:
            return sum(isinstance(event, Stray) for event in launches.session.memory)

        handlers.append(Beside(launches, strayed, device.arch, Path(os.environ["TRITON_CACHE_DIR"], "real")))
        return handlers[0]

    engine = VirtualEngine(around)
    engine.wear(device)
    sys.path[:0] = options.libraries
    endings: dict[str, int] = defaultdict(int)
    for suite in options.suites:
        for op in load_suite(suite):
            batch = Batch(op=op, device=device, hints=Hints(), seed=options.seed, size=options.cases)
            for case in {case.digest: case for case in batch.draw()}.values():
                ending = engine.run(op, case).ending
                endings[type(ending).__name__] += 1
                if not isinstance(ending, Completed | Refused):
                    print(f"{case}: {ending}"[:400], flush=True)
    (beside,) = handlers
    _table(beside.differences)
    print(f"launches compared: {beside.launches}; skipped, since they stray: {beside.skipped}; cases: {dict(endings)}")
    if options.json:
        options.json.write_text(json.dumps([asdict(found) for found in beside.differences]))
    return 0


def _table(differences: Iterable[Difference]) -> None:
    rows = defaultdict[tuple[str, str, str], list[Difference]](list)
    for found in differences:
        rows[found.kernel, found.argument, found.dtype].append(found)
    print(f"{'kernel':48} {'argument':14} {'type':9} {'launches':>8} {'equal':>6} {'ulps':>9} {'scaled':>9}")
    for (kernel, argument, dtype), all_of_it in rows.items():
        equal = sum(not found.differing for found in all_of_it)
        ulps, scaled = max(found.ulps for found in all_of_it), max(found.scaled for found in all_of_it)
        if equal < len(all_of_it):
            print(f"{kernel:48.48} {argument:14} {dtype:9} {len(all_of_it):8} {equal:6} {ulps:9.3g} {scaled:9.2g}")
    bitwise = sum(all(not found.differing for found in all_of_it) for all_of_it in rows.values())
    print(f"{bitwise} of {len(rows)} arguments of kernels are equal bit for bit in all launches", flush=True)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(
        status
    )  # the engine that ran in this process has a thread of torch's modes, which the interpreter cannot end
