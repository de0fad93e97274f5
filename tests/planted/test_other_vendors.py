"""Bugs of host code that only AMD's or Intel's GPUs show: each is found there, and no NVIDIA GPU has a finding."""

import json
import runpy
from pathlib import Path

import pytest

from tests.cli.command_line import Project

SUITES = Path(__file__).parents[2] / "suites"


def found(project: Project, suite: Path, device: str) -> tuple[int, dict[str, set[str]]]:
    """Return the status of a search, and the oracles that fail by op."""
    report = project.folder / f"{device}.json"
    search = ("fuzz", str(suite), "--device", device, "--cases", "40", "--seed", "1", "--json", str(report))
    done = project.harness(*search)
    assert report.exists(), done.out + done.err
    by_op: dict[str, set[str]] = {}
    for finding in json.loads(report.read_text())["findings"]:
        by_op.setdefault(finding["op"].rpartition(":")[2], set()).add(finding["oracle"])
    return done.status, by_op


@pytest.mark.slow
@pytest.mark.parametrize(("file", "device"), [("amd_only/amd_only.py", "mi300x"), ("intel_only/intel_only.py", "pvc")])
def test_bugs_of_a_vendors_path_are_found_there_and_nothing_elsewhere(tmp_path: Path, file: str, device: str) -> None:
    project, suite = Project(tmp_path), SUITES / file
    oracles = runpy.run_path(str(suite))["ORACLES"]
    status, seen = found(project, suite, device)
    assert {op: oracle for op, oracle in oracles.items() if oracle not in seen.get(op, set())} == {}, seen
    assert status == 1
    assert found(project, suite, "h200") == (0, {})
