"""Compares the virtual GPU with a real one, launch by launch: `conform.py SUITE ... --with LIBRARY --device SLUG`.

Draws cases of the suites' ops in as many processes as are asked for, and repeats every launch on the real GPU from the
same bytes.  The machine's GPU must be of the device's architecture.  Prints one row a kernel and argument.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from harness.cuda.beside import Beside, Difference
from harness.devices.catalogue import find
from harness.model.case import Scale
from harness.model.run import Completed, Refused, Stray
from harness.search.hints import Hints
from harness.search.strategies import Batch
from harness.suite import load_suite
from harness.virtual.engine import VirtualEngine
from harness.virtual.launches import Launches

EXACT = frozenset({"int8", "int16", "int32", "int64", "uint8", "bool"})
FEW_EPS = 16.0
"""So far, in units of its type's precision at the tensor's largest element, may a floating-point result be.

Both round every operation, in another order and with other library functions.
"""
PRECISIONS = {"tf32": 2.0**-10, "bf16": 2.0**-7, "f16": 2.0**-10}
"""Of what kernels round to on the way: it counts where it is coarser than the result's own type."""


@dataclass(slots=True)
class Share:
    """What one process of the comparison came to."""

    differences: list[Difference]
    launches: int
    skipped: dict[str, int]
    endings: dict[str, int]
    odd: list[str]
    """Cases that did not run to their end, and how they ended."""


def main() -> int:
    """Print the table; 1 where something differs that rounding does not explain, or a case did not run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="+")
    parser.add_argument("--with", dest="libraries", action="append", default=[], help="a folder to import from")
    parser.add_argument("--device", default="h200")
    parser.add_argument("--cases", type=int, default=10, help="for each op, in each process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1, help="each with another seed")
    parser.add_argument("--seconds", type=float, default=600.0, help="no case begins later than that")
    parser.add_argument("--share", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.share:
        share = compare_cases(options)
        options.share.write_text(json.dumps(asdict(share)), encoding="utf-8")
        return 0
    shares = list(_shares(options))
    differences = [Difference(**found) for share in shares for found in share["differences"]]
    odd = [line for share in shares for line in share["odd"]]
    endings: Counter[str] = Counter()
    for share in shares:
        endings.update(share["endings"])
    unexplained = [found for found in differences if not is_explained(found)]
    _table(differences)
    for line in odd:
        print(line)
    for found in unexplained:
        print(f"unexplained: {found}")
    launches, skipped = (sum(map(of, shares)) for of in (_launches, _skipped))
    print(f"{sum(endings.values())} cases ({dict(endings)}), {launches} launches compared, {skipped} that stray not")
    print(
        f"{len(unexplained)} of {len(differences)} tensors differ by more than rounding explains; "
        f"{len(odd)} cases did not run"
    )
    return int(bool(unexplained or odd))


def is_explained(found: Difference) -> bool:
    """Whether two right computations of this tensor may be so far apart."""
    if not found.differing:
        return True
    if found.dtype in EXACT:
        return False
    precision = float(torch.finfo(getattr(torch, found.dtype)).eps)
    coarse = max((PRECISIONS.get(one, 0.0) for one in found.rounds), default=0.0)
    return found.scaled <= FEW_EPS * max(precision, coarse)


def _launches(share: dict[str, Any]) -> int:
    return share["launches"]


def _skipped(share: dict[str, Any]) -> int:
    return sum(share["skipped"].values())


def _shares(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What each process found; all of them at work at once, each with a cache of its own."""
    with tempfile.TemporaryDirectory(prefix="harness-conform-") as folder:
        running: list[tuple[Path, subprocess.Popen[bytes]]] = []
        for number in range(options.processes):
            file = Path(folder, f"{number}.json")
            command = [sys.executable, __file__, *options.suites, "--device", options.device]
            command += [f"--with={one}" for one in options.libraries]
            command += [
                "--seconds",
                str(options.seconds),
                "--cases",
                str(options.cases),
                "--seed",
                str(options.seed + number),
                "--share",
                str(file),
            ]
            environment = {**os.environ, "TRITON_CACHE_DIR": str(Path(folder, f"cache-{number}"))}
            running.append((file, subprocess.Popen(command, env=environment)))
        for file, process in running:
            process.wait()
            if file.exists():
                yield json.loads(file.read_text(encoding="utf-8"))
            else:
                odd = [f"a process of the comparison ended with status {process.returncode}"]
                yield asdict(Share(differences=[], launches=0, skipped={}, endings={}, odd=odd))


def compare_cases(options: argparse.Namespace) -> Share:
    """Draw cases of every op and run them on both GPUs, in this process."""
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
    endings: Counter[str] = Counter()
    odd: list[str] = []
    deadline = time.monotonic() + options.seconds
    for suite in options.suites:
        for op in load_suite(suite):
            batch = Batch(op=op, device=device, hints=Hints(), seed=options.seed, size=options.cases)
            for case in {case.digest: case for case in batch.draw() if case.scale is Scale.USUAL}.values():
                if time.monotonic() > deadline:
                    break
                ending = engine.run(op, case).ending
                endings[type(ending).__name__] += 1
                if not isinstance(ending, Completed | Refused):
                    odd.append(f"{case}: {ending}"[:400])
    (beside,) = handlers
    return Share(beside.differences, beside.launches, beside.skipped, dict(endings), odd)


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
