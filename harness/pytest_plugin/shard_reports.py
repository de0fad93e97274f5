"""`--harness-shard` and `--harness-json`: which searches a pytest run has, and their mergeable report.

Each test leaves its report as a file of its own, since it may run in a process of pytest-xdist.  The process that ends
the run joins them.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.documents import files
from harness.documents.campaign import CampaignReport
from harness.documents.chunk import ChunkReport, ShardReport, shard_of
from harness.errors import UsageError
from harness.fleet.chunk_plan import chunk_of_pair
from harness.fleet.shards import NO_SHARD, Shard, parse_shard
from harness.search.options import Options

NUMBERS = pytest.StashKey[dict[str, int]]()
"""The number of each search of the whole run, by the id of its test."""
SEARCH = pytest.StashKey[str]()


def shard_from(config: pytest.Config) -> Shard | None:
    """Return the shard that the options name.

    Raises:
        pytest.UsageError: there is no such shard.
    """
    text: str | None = config.option.harness_shard
    try:
        return parse_shard(text, os.environ) if text else None
    except UsageError as error:
        raise pytest.UsageError(str(error).replace("--shard", "--harness-shard")) from None


def keep_share(
    config: pytest.Config, items: list[pytest.Item], searches: Sequence[pytest.Item], regressions: Sequence[pytest.Item]
) -> None:
    """Number the searches, and deselect those of other shards, as well as their regressions.  Tests of others stay."""
    option = config.option
    parts = (*(item.nodeid for item in searches), option.harness_seed, option.harness_cases, *option.harness_with)
    config.stash[SEARCH] = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:8]
    config.stash[NUMBERS] = {item.nodeid: number for number, item in enumerate(searches, 1)}
    if (shard := shard_from(config)) is None:
        return
    deselected = {*_others(searches, shard), *_others(regressions, shard)}
    if deselected:
        config.hook.pytest_deselected(items=[item for item in items if item in deselected])
        items[:] = [item for item in items if item not in deselected]


def _others(items: Sequence[pytest.Item], shard: Shard) -> list[pytest.Item]:
    return [item for number, item in enumerate(items, 1) if shard_of(number, shard.count) != shard.number]


def record(item: pytest.Item, options: Options, report: CampaignReport) -> None:
    """Leave the report of a test, if one of the whole run is asked for.  The options are those of this test alone."""
    if (folder := _parts(item.config)) is None:
        return
    numbers = item.config.stash[NUMBERS]
    (op,), (device,) = options.ops, options.devices
    draft = chunk_of_pair(options, op, device)
    number = numbers[item.nodeid]
    chunk = replace(draft, search=item.config.stash[SEARCH], number=number, count=len(numbers))
    folder.mkdir(parents=True, exist_ok=True)
    files.write(_report_of(item.config, (ChunkReport(chunk=chunk, report=report),)), folder / f"{number}.json")


def begin(config: pytest.Config) -> None:
    """Check the options, and remove what a killed run has left.

    Raises:
        pytest.UsageError: there is no such shard, no common seed, or no folder for the report.
    """
    if shard_from(config) is not None and config.option.harness_seed is None:
        raise pytest.UsageError("the shards of one run need one seed: add --harness-seed N, the same for all of them")
    if (folder := _parts(config)) is not None:
        if not folder.absolute().parent.is_dir():
            raise pytest.UsageError(f"--harness-json {config.option.harness_json}: there is no folder {folder.parent}")
        shutil.rmtree(folder, ignore_errors=True)


def end(config: pytest.Config) -> None:
    """Write the report of all tests that ran."""
    if (folder := _parts(config)) is None:
        return
    parts = [files.read(path, ShardReport) for path in folder.glob("*.json")]
    chunks = sorted((report for part in parts for report in part.chunks), key=lambda report: report.chunk.number)
    files.write(_report_of(config, tuple(chunks)), Path(config.option.harness_json))
    shutil.rmtree(folder, ignore_errors=True)


def _report_of(config: pytest.Config, chunks: tuple[ChunkReport, ...]) -> ShardReport:
    shard = shard_from(config) or NO_SHARD
    return ShardReport(
        search=chunks[0].chunk.search if chunks else "",
        chunk_count=chunks[0].chunk.count if chunks else 0,
        shard=shard.number,
        shard_count=shard.count,
        chunks=chunks,
    )


def _parts(config: pytest.Config) -> Path | None:
    """Return the folder for the reports of single tests; None if no report is asked for."""
    name: str | None = config.option.harness_json
    return Path(f"{name}.parts") if name else None
