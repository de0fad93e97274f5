"""A search that is divided among machines finds what it finds on one machine."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import ENGINE, Finished, Project
from tests.cli.fake_engine import suite_of

SEARCH = ("fuzz", "suites", "--device", "rtx-pro-6000,b200", "--cases", "64", "--oracle", "write-overlap", *ENGINE)
SHARDS = 8
TIMES = ("seconds", "triage_seconds")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.write("pyproject.toml", "")
    project.write("suites/norm.py", suite_of("overlapping", "slow", "faultless", "only_on_rtx"))
    return project


def shard(project: Project, number: int, count: int = SHARDS, *more: str) -> Finished:
    given = ("--seed", "1", "--shard", f"{number}/{count}", "--json", f"shard-{number}-of-{count}.json")
    return project.harness(*SEARCH, *given, *more)


def read(project: Project, name: str) -> Any:
    return json.loads((project.folder / name).read_text(encoding="utf-8"))


def timeless(report: Any) -> Any:
    """Return a report without what a clock told."""
    findings = [{key: value for key, value in one.items() if key != "first_seen"} for one in report["findings"]]
    return {**{key: value for key, value in report.items() if key not in TIMES}, "findings": findings}


@pytest.mark.nightly
@pytest.mark.slow
def test_eight_shards_find_what_one_finds_less_the_missing(project: Project) -> None:
    whole = shard(project, 1, 1)
    assert whole.status == 1
    runs = [shard(project, number) for number in (1, 2, 3, 5, 6, 7, 8, 3)]
    assert {run.status for run in runs} == {0, 1, 3}
    files = [f"shard-{number}-of-{SHARDS}.json" for number in (8, 3, 1, 2, 6, 5, 7, 3)]
    merged = project.harness("report", "--merge", *files, "--json", "merged.json")
    assert (merged.status, "missing: shard 4 of 8 (1 of 8 chunks) did not report" in merged.out) == (1, True)

    document = read(project, "shard-1-of-1.json")
    assert [one["chunk"]["number"] for one in document["chunks"]] == list(range(1, 9))
    document["chunks"] = [one for one in document["chunks"] if one["chunk"]["number"] != 4]
    project.write("seven.json", json.dumps(document))
    seven = project.harness("report", "--merge", "seven.json", "--json", "expected.json")
    assert "missing: chunk 4" in seven.out
    expected = timeless(read(project, "expected.json"))
    assert {**timeless(read(project, "merged.json")), "missing": ()} == {**expected, "missing": ()}
    assert expected["cases"] == 56


def test_a_chunk_is_repeated_by_its_file(project: Project) -> None:
    first = shard(project, 1, 8)
    chunk = read(project, "shard-1-of-8.json")["chunks"][0]["chunk"]
    file = f".harness/chunks/{chunk['search']}-1.json"
    again = project.harness("fuzz", "--chunk", file, "--json", "again.json")
    assert (first.status, again.status) == (1, 1)
    one, other = (read(project, name)["chunks"][0]["report"] for name in ("shard-1-of-8.json", "again.json"))
    assert timeless(one) == timeless(other)


def test_a_chunk_runs_its_first_cases_and_names_those_that_do_not_fit(project: Project) -> None:
    shard(project, 1, 8)
    chunk = read(project, "shard-1-of-8.json")["chunks"][0]
    (promising, *_) = chunk["report"]["promising"]
    dims = promising["case"]["dims"]
    cases = [{**promising["case"], "dims": {**dims, "T": size}} for size in (7777, 1777)]
    whole = {**chunk["chunk"], "plan": {**chunk["chunk"]["plan"], "first_cases": cases}}
    project.write("chunk.json", json.dumps(whole))
    done = project.harness("fuzz", "--chunk", "chunk.json", "--json", "again.json")
    report = read(project, "again.json")["chunks"][0]["report"]
    (dropped,) = report["dropped_cases"]
    assert f"first case dropped: {dropped}\n" in done.out
    assert ("T=7777" in dropped, "the op allows no such dims" in dropped) == (True, True)
    assert [row["cases"] for row in report["tested_sizes"] if row["size"] == 1777] == [1]
    assert report["cases"] == chunk["report"]["cases"]


def test_a_missing_shard_is_no_clean_result(project: Project) -> None:
    assert shard(project, 5).status == 0
    merged = project.harness("report", "--merge", "shard-5-of-8.json")
    assert merged.status == 2
    assert "missing: shard 1 of 8 (1 of 8 chunks) did not report" in merged.out


def test_a_shard_without_a_chunk_is_clean_and_says_so(project: Project) -> None:
    none = shard(project, 9, 9)
    assert (none.status, none.err) == (0, "no chunk falls to shard 9/9: the search has 8\n")
    assert read(project, "shard-9-of-9.json")["chunks"] == []


@pytest.mark.nightly
@pytest.mark.slow
def test_an_interrupted_shard_keeps_the_chunks_that_ran(project: Project) -> None:
    process = project.start(*SEARCH, "--seed", "1", "--shard", "1/1", "--json", "cut.json")
    assert process.stderr is not None
    while not process.stderr.readline().startswith("chunk 4 of 8"):
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 1
    numbers = [one["chunk"]["number"] for one in read(project, "cut.json")["chunks"]]
    assert numbers in ([1, 2, 3], [1, 2, 3, 4])
    merged = project.harness("report", "--merge", "cut.json")
    assert (merged.status, "missing: chunks " in merged.out) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--shard", "1/2"), "the shards of one search need one seed: add --seed N, the same for all of them"),
        (("--shard", "0/2", "--seed", "1"), "--shard 0/2: there is no shard 0 of 2"),
        (("--shard", "two", "--seed", "1"), "--shard two: write the number of the shard and how many there are"),
        (("--shard", "1/2", "--seed", "1", "--cases", "3"), "3 cases are too few for 4 ops on 2 devices"),
    ],
)
def test_a_wrong_shard_is_refused_in_one_line(project: Project, arguments: tuple[str, ...], message: str) -> None:
    refused = project.harness(*SEARCH, *arguments)
    assert (refused.status, refused.out) == (2, "")
    assert refused.err.startswith(f"harness: {message}")


def test_a_chunk_names_its_own_search(project: Project) -> None:
    project.write("chunk.json", CHUNK)
    refused = project.harness("fuzz", "--chunk", "chunk.json", "--seed", "3")
    assert (refused.status, refused.err) == (2, "harness: chunk.json says what to search: leave out --seed\n")


CHUNK = """{"kind": "chunk", "schema_version": 2, "search": "0123abcd", "number": 1, "count": 1, "search_seed": 1,
"plan": {"suites": ["suites/norm.py"], "op": ["slow"], "device": "b200", "seed": 1, "cases": 4,
"triage_seconds": 60.0, "engine": "virtual"}}"""
