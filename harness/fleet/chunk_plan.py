"""The chunks of a search: each pair of op and device, in blocks of so many cases.

A chunk is a search of its own, with a seed derived from that of the whole.  So it finds the same on any machine, next
to whatever else runs there, and may run twice.  The chunks of a search do not depend on the number of shards, unless
their budget is a time.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path

from harness.documents.chunk import Chunk, shard_of
from harness.errors import UsageError
from harness.libraries import portable
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.plan import Plan
from harness.search.campaign_plan import CaseBudget, TimeBudget, derived_seed
from harness.search.options import Options
from harness.wire import to_json

BLOCK_CASES = 96
"""The most cases of a chunk: six batches.  Fewer learn little from launches, more keep a machine waiting for one."""


Environment = Mapping[str, tuple[str, ...]]
"""What `--env` gives."""


def chunks_of(options: Options, shards: int, environment: Environment | None = None) -> list[Chunk]:
    """Divide a search.  `environment` is what `--env` gives."""
    pairs = [(op, device) for op in options.ops for device in options.devices]
    match options.budget:
        case CaseBudget(cases=cases):
            if cases < len(pairs):
                raise UsageError(
                    f"{cases} cases are too few for {len(options.ops)} ops on {len(options.devices)} devices: give "
                    f"--cases {len(pairs)} or more, or fewer ops or devices"
                )
            blocks = list(_blocks_of_cases(pairs, cases))
        case TimeBudget(cases=int()):
            raise UsageError("a divided search takes --cases or --minutes, not both: each part would count for itself")
        case TimeBudget(seconds=seconds):
            each = ceil(shards / len(pairs))
            share = seconds / ceil(len(pairs) * each / shards)
            blocks = [(op, device, block, share) for op, device in pairs for block in range(each)]
    drafts = [_chunk(options, block, environment or {}) for block in blocks]
    named = (to_json(_without_folders(draft, options.project)) for draft in drafts)
    search = hashlib.sha256("\n".join(named).encode()).hexdigest()[:8]
    numbered = enumerate(drafts, 1)
    return [replace(draft, search=search, number=number, count=len(drafts)) for number, draft in numbered]


def _without_folders(chunk: Chunk, project: Path) -> Chunk:
    """Leave out where a folder after `--with` is: a checkout is elsewhere on each machine of one search.

    The project's own folder may have another name there, too.
    """
    specs = (portable(spec, project) for spec in chunk.plan.libraries)
    libraries = (Path(spec).name if Path(spec).is_absolute() else spec for spec in specs)
    return replace(chunk, plan=replace(chunk.plan, libraries=tuple(libraries)))


def chunks_of_shard(chunks: Sequence[Chunk], shard: int, shards: int) -> list[Chunk]:
    """Return the chunks that this shard runs.  Numbers of shards differ by one chunk at most."""
    return [chunk for chunk in chunks if shard_of(chunk.number, shards) == shard]


def chunk_of_pair(options: Options, op: Op, device: DeviceProfile) -> Chunk:
    """Return all cases of an op on a device as one chunk, not yet numbered; `options` are those of this chunk."""
    budget = options.budget
    return _chunk(options, (op, device, 0, budget.cases if isinstance(budget, CaseBudget) else budget.seconds), {})


def chunk_of_block(options: Options, op: Op, device: DeviceProfile, number: int, budget: float) -> Chunk:
    """Return the block of this number, from 0, of an op on a device, not yet numbered in a search.

    `budget` is a number of cases, or of seconds.
    """
    return _chunk(options, (op, device, number, budget), {})


_Block = tuple[Op, DeviceProfile, int, int | float]
"""Op, device, number of the block, and its budget: cases, or seconds."""


def _blocks_of_cases(pairs: list[tuple[Op, DeviceProfile]], cases: int) -> Iterator[_Block]:
    for place, (op, device) in enumerate(pairs):
        left = cases // len(pairs) + (place < cases % len(pairs))
        count = ceil(left / BLOCK_CASES)
        for block in range(count):
            yield op, device, block, left // count + (block < left % count)


def _chunk(options: Options, block: _Block, environment: Environment) -> Chunk:
    op, device, number, budget = block
    plan = Plan(
        suites=(op.suite,),
        op=(op.name,),
        device=device.slug,
        sm=device.sm_count if options.fixed_sm_count else None,
        env=environment,
        cases=budget if isinstance(budget, int) else None,
        seconds=budget if isinstance(budget, float) else None,
        triage_seconds=options.triage_s,
        seed=derived_seed(options.seed, "chunk", str(number)) if number else options.seed,
        oracle=options.oracles,
        libraries=options.libraries,
        engine=str(options.engine),
        sanitizer=str(options.sanitizer or ""),
        isolation=options.isolation,
        time_limit_s=options.time_limit_s,
        first_cases=() if number else tuple(case for case in options.first_cases if _is_of(case, op, device)),
    )
    return Chunk(search="", number=0, count=0, search_seed=options.seed, plan=plan)


def _is_of(case: Case, op: Op, device: DeviceProfile) -> bool:
    return (case.op, case.device.slug) == (op.id, device.slug)


def options_of_chunk(options: Options, chunk: Chunk) -> Options:
    """Return the options of the chunk alone, of the search that it belongs to."""
    plan = chunk.plan
    ops = tuple(op for op in options.ops if (op.suite,) == plan.suites and (op.name,) == plan.op)
    devices = tuple(device for device in options.devices if device.slug == plan.device)
    match options.budget:
        case CaseBudget():
            budget = CaseBudget(cases=plan.cases or 0)
        case TimeBudget():
            budget = replace(options.budget, seconds=plan.seconds or 0.0)
    return replace(options, ops=ops, devices=devices, budget=budget, seed=plan.seed, first_cases=plan.first_cases)
