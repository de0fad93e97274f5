"""Bugs of host code that only Intel's GPUs show: each is found there, and no NVIDIA GPU has a finding."""

import json
import runpy
from pathlib import Path

import pytest

from tests.cli.command_line import Project

SUITE = Path(__file__).parents[2] / "suites" / "intel_only" / "intel_only.py"
ORACLES = runpy.run_path(str(SUITE))["ORACLES"]


def found(project: Project, device: str) -> tuple[int, dict[str, set[str]]]:
    """Return the status of a search, and the oracles that fail by op."""
    report = project.folder / f"{device}.json"
    search = ("fuzz", str(SUITE), "--device", device, "--cases", "40", "--seed", "1", "--json", str(report))
    done = project.harness(*search)
    assert report.exists(), done.out + done.err
    by_op: dict[str, set[str]] = {}
    for finding in json.loads(report.read_text())["findings"]:
        by_op.setdefault(finding["op"].rpartition(":")[2], set()).add(finding["oracle"])
    return done.status, by_op


@pytest.mark.slow
def test_bugs_of_intel_paths_are_found_there_and_nothing_elsewhere(tmp_path: Path) -> None:
    project = Project(tmp_path)
    status, seen = found(project, "pvc")
    assert {op: oracle for op, oracle in ORACLES.items() if oracle not in seen.get(op, set())} == {}, seen
    assert status == 1
    assert found(project, "h200") == (0, {})
