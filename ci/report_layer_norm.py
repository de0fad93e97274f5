"""Prints which cells several programs store in the norms' backward passes, by rows, on a GPU of many SMs.

    python ci/report_layer_norm.py --with fla-core==0.5.2

It also counts how often the backward kernel is tuned in the sweep.  `docs/results/layer-norm.md` keeps what it prints.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from harness import catalogue
from harness.model.case import Case, DType
from harness.model.op import Op
from harness.model.run import Completed, Overlap, Run
from harness.oracles.endings import describe
from harness.search.campaign_plan import CaseBudget
from harness.search.options import Options
from harness.search.session import Session
from harness.suite import load_suite

SUITE = "suites/fla/norm.py"
PROJECT = Path(__file__).resolve().parent.parent
DEVICE = catalogue.find("rtx-pro-6000")
ROWS = (*range(1, 33), 100, 500, 5_000, 10_000, 20_000, 24_000)
ROWS_PER_GROUP = (65, 129, 130, 191, 257)
WIDTH, GROUPS = 64, 4
KERNEL = "layer_norm_bwd_kernel"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--with", dest="library", required=True, metavar="SPEC")
    library = parser.parse_args().library
    ops = {op.name: op for op in load_suite(SUITE, PROJECT)}
    options = Options(
        suites=(SUITE,),
        ops=tuple(ops.values()),
        devices=(DEVICE,),
        budget=CaseBudget(cases=1),
        seed=0,
        project=PROJECT,
        processes=1,
        libraries=(library,),
        time_limit_s=300.0,
    )
    with Session(options) as session:
        print(f"{library} on {DEVICE}, float32, {WIDTH} columns")
        plain = runs_of(session, cases(ops["layer_norm"], ROWS, without=("residual",), seed=0))
        print(*table("layer norm", plain), sep="\n")
        print(*table("layer norm with residual", runs_of(session, cases(ops["layer_norm"], ROWS))), sep="\n")
        grouped = runs_of(session, cases(ops["group_norm"], ROWS_PER_GROUP, without=("residual",)))
        print(*table(f"group norm of {GROUPS} groups, rows per group", grouped), sep="\n")
        print(tunings(plain))


def cases(op: Op, rows: Iterable[int], *, without: tuple[str, ...] = (), seed: int = 1) -> tuple[Case, ...]:
    """Return a case for each number of rows.  In cases of seed 0 autotuners tune in a second run."""
    fixed = {"D": WIDTH, "G": GROUPS}
    return tuple(
        Case(
            op=op.id,
            dims={"T": number, **{name: fixed[name] for name in op.dims if name != "T"}},
            dtype=DType.FP32,
            device=DEVICE,
            absent=without,
            seed=seed,
        )
        for number in rows
    )


def runs_of(session: Session, wanted: Sequence[Case]) -> tuple[Run, ...]:
    return tuple(future.result() for future in [session.pool.submit(case) for case in wanted])


def table(title: str, runs: Sequence[Run]) -> Iterator[str]:
    """Yield a row for each stretch of sizes that show the same, apart from the number of cells."""
    yield f"\n{title}"
    for _, stretch in groupby(runs, key=lambda run: [found[:2] for found in overlaps(run)]):
        alike = tuple(stretch)
        first, last = alike[0].case.dims["T"], alike[-1].case.dims["T"]
        sizes = f"{first:,}" if first == last else f"{first:,} to {last:,}"
        yield f"  {sizes:>16}  {'; '.join(in_words(alike)) or 'no cell is stored twice'}"


def overlaps(run: Run) -> tuple[tuple[str, str, int], ...]:
    """Return argument, bytes and cells of each overlap; for a case that broke off, how it ended."""
    if not isinstance(run.ending, Completed):
        return ((describe(run.ending), "", 0),)
    found = (event for event in run.memory if isinstance(event, Overlap))
    return tuple(sorted((one.site.argument, "same" if one.same_bytes else "different", one.cells) for one in found))


def in_words(runs: Sequence[Run]) -> Iterator[str]:
    for parts in zip(*map(overlaps, runs), strict=True):
        argument, seen, _ = parts[0]
        counts = sorted({cells for _, _, cells in parts})
        cells = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        yield f"{argument}: {cells} cells, {seen} bytes" if seen else argument


def tunings(runs: Sequence[Run]) -> str:
    """Return how often the backward kernel was tuned, and the values in its key that changed."""
    calls = [call for run in runs if run.tuned for call in run.tuned.calls if call.kernel == KERNEL]
    if not calls:
        return f"\n{KERNEL} was not tuned"
    keys = {tuple(call.key.items()): call for call in calls}
    changing = {
        name: dict.fromkeys(call.key[name] for call in keys.values())
        for name in calls[0].key
        if len({call.key[name] for call in keys.values()}) > 1
    }
    values = "; ".join(f"{name} = {', '.join(found)}" for name, found in changing.items()) or "nothing"
    return (
        f"\n{KERNEL} has the key {', '.join(calls[0].key)}\n"
        f"  {len(keys)} tunings of {calls[0].configs} configs in {len(calls)} calls; in the key changed {values}"
    )


if __name__ == "__main__":
    main()
