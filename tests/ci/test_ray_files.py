"""The files that start a Ray cluster are valid, and the commands in them are ones that the harness takes."""

import json
import os
import re
import shlex
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
import yaml
from jsonschema import Draft202012Validator

from harness.cli import parse
from tests.ci.workflow_shell import TEMPLATES

STAND_INS = {
    "srun": 'while [[ $1 == --* ]]; do shift; done\nexec "$@"\n',
    "scontrol": "echo 127.0.0.1\n",
}
"""Slurm's commands in an allocation of one node, which is this machine."""
MARK = "NODES_OF_TEST"
UP, KUBERAY, SLURM = (TEMPLATES / name for name in ("ray-up.yaml", "ray-kuberay.yaml", "ray-slurm.sh"))
FUZZ = re.compile(r"harness fuzz [^'&]*?--json [^\s']+")


def errors_of(cluster: Any) -> list[str]:
    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text(encoding="utf-8"))
    return [error.message for error in Draft202012Validator(schema).iter_errors(cluster)]


def test_the_cluster_of_ray_up_is_valid_by_rays_schema() -> None:
    cluster = yaml.safe_load(UP.read_text(encoding="utf-8"))
    assert errors_of(cluster) == []
    assert errors_of({**cluster, "max_workers": "many"}) == ["'many' is not of type 'integer'"]


def test_the_job_of_kuberay_uses_the_release_of_ray_that_is_tested() -> None:
    job = yaml.safe_load(KUBERAY.read_text(encoding="utf-8"))
    assert (job["kind"], job["spec"]["rayClusterSpec"]["rayVersion"]) == ("RayJob", ray.__version__)


@pytest.mark.parametrize("path", [UP, KUBERAY, SLURM], ids=lambda path: path.name)
def test_the_command_of_each_file_parses(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    (command,) = FUZZ.findall(re.sub(r"\n\s*(?!#)", " ", text) if path is KUBERAY else text)
    words = [
        re.sub(r"^\$\{\w+:-(.*)\}$|^\$SLURM_JOB_ID$|^\$address$", r"\1", word) or "7" for word in shlex.split(command)
    ]
    assert parse(words[1:]).ray in {"auto", "7"}


@pytest.mark.nightly
@pytest.mark.slow
def test_the_slurm_script_starts_a_cluster_searches_and_ends_it(tmp_path: Path) -> None:
    for name, body in STAND_INS.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{body}", encoding="utf-8")
        path.chmod(0o755)
    mark, project = uuid.uuid4().hex, tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").touch()
    path_variable = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    slurm = {"SLURM_JOB_NODELIST": "one", "SLURM_CPUS_PER_TASK": "2", "SLURM_JOB_ID": "7"}
    search = {"SUITES": "planted:overlapping_store", "DEVICES": "b200", "CASES": "4", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        ["/bin/bash", str(SLURM)],
        cwd=project,
        env={**os.environ, **slurm, **search, "PATH": path_variable, MARK: mark},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, "1 finding: 1 warning" in done.stdout) == (1, True), done.stdout + done.stderr
    assert json.loads((project / "night-7.json").read_text(encoding="utf-8"))["kind"] == "shard"
    left = [one.info["name"] for one in psutil.process_iter(["name", "environ"]) if is_of(one.info, mark)]
    assert "raylet" not in left


def is_of(process: Mapping[str, Any], mark: str) -> bool:
    return (process["environ"] or {}).get(MARK) == mark
