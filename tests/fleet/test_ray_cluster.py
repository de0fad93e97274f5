"""A search on a Ray cluster of three nodes on this machine, of which one dies and one joins late."""

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.documents import files
from harness.documents.chunk import ShardReport
from harness.findings.report_merging import merge_chunks
from harness.fleet.ray_cluster import Node, NodeRequest, gpu_type_of
from harness.night import night_memory
from harness.night.bug_history import history_of
from tests.cli.command_line import ENGINE, ROOT, Project
from tests.cli.fake_engine import suite_of

SEARCH = ("fuzz", "suites", "--device", "rtx-pro-6000,b200", "--cases", "160", "--oracle", "write-overlap", *ENGINE)
ON = ("--seed", "1", "--processes", "1")
MARK = "NODES_OF_TEST"
"""An environment variable that everything on the nodes inherits."""
ENDED = re.compile(r"^(\d+)/8 chunks ")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.write("pyproject.toml", "")
    project.write("suites/norm.py", suite_of("overlapping", "slow", "faultless", "only_on_rtx"))
    return project


class Nodes:
    """The nodes of a cluster: two of one core at first, each with processes of its own."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        environment = {**os.environ, MARK: self.mark, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("ray_nodes.py"))],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.address = self._answer()

    def tell(self, order: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        assert self._answer() == "done"

    def close(self) -> None:
        self._process.communicate(timeout=60)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    nodes = Nodes()
    yield nodes
    nodes.close()


def chunk_processes(nodes: Nodes) -> list[int]:
    """Return the processes on these nodes that run chunks."""
    found = list[int]()
    for process in psutil.process_iter(["cmdline", "environ"]):
        is_on_nodes = (process.info["environ"] or {}).get(MARK) == nodes.mark
        if is_on_nodes and {"--chunk", "--events"} <= {*(process.info["cmdline"] or ())}:
            found.append(process.pid)
    return found


def ended_chunks(search: subprocess.Popen[str], least: int) -> None:
    """Read what a search tells until so many of its chunks have ended."""
    assert search.stderr is not None
    for line in search.stderr:
        if (match := ENDED.match(line)) and int(match[1]) >= least:
            return
    raise AssertionError("the search has ended")


@pytest.mark.nightly
@pytest.mark.slow
def test_no_chunk_is_lost_when_a_node_dies_and_one_joins(project: Project, nodes: Nodes) -> None:
    known = project.process("doctor", "--ray", nodes.address)
    assert len(re.findall(r"ok       node \S+: 1 CPU\n", known.out)) == 2
    search = project.start(*SEARCH, *ON, "--ray", nodes.address, "--json", "ray.json")
    ended_chunks(search, 1)
    nodes.tell("join")
    nodes.tell("kill")
    out, err = search.communicate(timeout=240)
    assert (search.returncode, "has no result" in err, "Traceback" in err) == (1, False, False), out + err
    project.process(*SEARCH, *ON, "--shard", "1/1", "--json", "alone.json")
    on_ray, alone = (files.read(project.folder / name, ShardReport) for name in ("ray.json", "alone.json"))
    assert sorted(one.chunk.number for one in on_ray.chunks) == list(range(1, 9))
    assert summed_up(on_ray) == summed_up(alone)
    stored = [json.loads(path.read_text()) for path in (project.folder / ".harness/findings").glob("*/finding.json")]
    assert len({one["signature"] for one in stored}) == 1


NIGHT = """
device = "rtx-pro-6000,b200"

[night]
block = 8

[[night.search]]
name = "one"
engine = "tests.cli.fake_engine:FakeEngine"
oracle = ["write-overlap"]
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_a_night_loses_nothing_when_a_node_dies_and_one_joins(project: Project, nodes: Nodes) -> None:
    project.write("harness.toml", NIGHT)
    on_ray = project.start("night", "--cases", "128", "--ray", nodes.address, "--memory", "on-ray")
    log = project.folder / "on-ray" / "log"
    while not any(b'"tried"' in path.read_bytes() for path in log.glob("*.jsonl")):
        assert on_ray.poll() is None
    nodes.tell("join")
    nodes.tell("kill")
    out, err = on_ray.communicate(timeout=300)
    assert (on_ray.returncode, "has no result" in err) == (0, False), out + err
    project.process("night", "--cases", "128", "--memory", "alone")
    assert known_of(project.folder / "on-ray") == known_of(project.folder / "alone")


def known_of(memory: Path) -> tuple[object, ...]:
    known = history_of(night_memory.read(memory))
    bugs = [(bug.id, bug.state, bug.is_confirmed, bug.finding and bug.finding.case) for bug in known.bugs]
    return bugs, {unit: (row.cases, row.checked, row.next_block) for unit, row in known.units.items()}


def summed_up(shard: ShardReport) -> tuple[object, ...]:
    report = merge_chunks(shard.chunks)
    found = tuple((one.fail.signature, one.case, one.sightings, one.confirmed) for one in report.findings)
    return found, report.cases, report.verdicts, report.op_checks


@pytest.mark.nightly
@pytest.mark.slow
def test_an_interrupted_search_leaves_no_process_on_the_nodes(project: Project, nodes: Nodes) -> None:
    search = project.start(*SEARCH, *ON, "--ray", nodes.address)
    ended_chunks(search, 1)
    assert chunk_processes(nodes)
    search.send_signal(signal.SIGTERM)
    out, err = search.communicate(timeout=120)
    assert (search.returncode, "missing: chunks " in out) == (1, True), out + err
    assert chunk_processes(nodes) == []


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9"])
def test_an_address_without_a_cluster_is_refused_in_one_line(project: Project, address: str) -> None:
    refused = project.process(*SEARCH, *ON, "--ray", address)
    assert refused.status == 2
    assert refused.err.startswith(f"harness: --ray {address}: no Ray cluster answers: ")
    assert refused.err.count("\n") == 1


def test_minutes_are_refused_on_a_cluster(project: Project) -> None:
    given = [word for word in SEARCH if word not in {"--cases", "160"}]
    refused = project.process(*given, "--minutes", "1", "--ray", "auto")
    assert (refused.status, refused.err.startswith("harness: --ray takes --cases")) == (2, True)


@pytest.mark.parametrize(
    ("name", "types", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", ("A100", "H100"), "H100"),
        ("NVIDIA L40S", ("L4", "L40S"), "L40S"),
        ("NVIDIA L4", ("L4", "L40S"), "L4"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", ("RTX-PRO-6000",), "RTX-PRO-6000"),
        ("NVIDIA GeForce RTX 5090", ("GeForce-RTX-5090",), "GeForce-RTX-5090"),
        ("NVIDIA B200", (), "B200"),
    ],
)
def test_the_type_of_a_gpu_is_that_of_a_node(name: str, types: tuple[str, ...], expected: str) -> None:
    nodes = [Node(name=one, cpus=8, gpus=1, gpu_type=one) for one in types]
    assert gpu_type_of(name, nodes) == expected


def test_a_node_offers_what_it_has_when_it_is_free() -> None:
    node = Node(name="a", cpus=8, gpus=1, gpu_type="H100")
    assert node.offers(NodeRequest(cpus=4, gpus=1, gpu_type="H100"))
    assert node.offers(NodeRequest(cpus=8))
    assert not node.offers(NodeRequest(cpus=4, gpus=1, gpu_type="B200"))
    assert not node.offers(NodeRequest(cpus=9))
