"""Measure what a fleet costs: chunks as Ray tasks, as plain processes, and in one process, on the same cores.

    python ci/bench_fleet.py fla:norm --with fla-core==0.6.0 --op rms_norm --device b200,h200 --cases 256

Prints the seconds of each way, their ratio, and the seconds and bytes of one chunk.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from harness.documents import files
from harness.documents.chunk import ShardReport

FUZZ = (sys.executable, "-m", "harness.cli", "fuzz")
SEED = ("--seed", "1")
CORES = len(os.sched_getaffinity(0))


def main(search: Sequence[str]) -> None:
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("pyproject.toml").touch()
        in_one_s = timed((*FUZZ, *search, *SEED, "--shard", "1/1", "--json", "one.json"))  # compiles every kernel
        in_one_s = timed((*FUZZ, *search, *SEED, "--shard", "1/1", "--json", "one.json"))
        chunks = sorted(Path(".harness", "chunks").glob("*.json"))
        plain = [(*FUZZ, "--chunk", str(one), "--processes", "1", "--json", f"{one.stem}.json") for one in chunks]
        begun = time.monotonic()
        with ThreadPoolExecutor(CORES) as pool:
            seconds = list(pool.map(timed, plain))
        plain_s = time.monotonic() - begun
        ray_s = on_ray(search)
        report = files.read(Path("one.json"), ShardReport)
        cases = sum(one.report.cases for one in report.chunks)
        sizes = [Path(f"{one.stem}.json").stat().st_size for one in chunks]
    print(f"{len(chunks)} chunks, {cases} cases, {CORES} cores, one process a chunk")
    print(f"one process after another's chunk (--shard 1/1, {CORES} processes): {in_one_s:.1f} s")
    print(f"plain processes, {CORES} at once: {plain_s:.1f} s; Ray: {ray_s:.1f} s, {ray_s / plain_s:.2f} of that")
    print(f"a chunk: median {median(seconds):.1f} s in a process, its report {median(sizes) / 1024:.0f} KiB")


def on_ray(search: Sequence[str]) -> float:
    """Return the seconds of a search on a cluster of one node, which is up already."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - an extra

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": CORES})
    given = (*FUZZ, *search, *SEED, "--processes", "1", "--ray", str(cluster.address))
    try:
        timed(given)  # compiles every kernel where the node keeps the project
        return timed(given)
    finally:
        cluster.shutdown()


def timed(command: Sequence[str]) -> float:
    begun = time.monotonic()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode not in {0, 1, 3}:
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return time.monotonic() - begun


if __name__ == "__main__":
    main(sys.argv[1:])
