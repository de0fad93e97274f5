"""The suite of TransformerEngine runs on its wheel of pure Python, whose packages ask for a compiled extension."""

import json
from pathlib import Path

import pytest

from tests.cli.command_line import Project

pytestmark = pytest.mark.slow

OPS = 7
UNDEFINED = "undefined-lanes: _permute_kernel output_ptr"


@pytest.mark.nightly
def test_the_ignored_stride_of_batches_of_logits_is_found(tmp_path: Path) -> None:
    project = Project(tmp_path)
    given = ("--with", "transformer-engine==2.18.0", "--device", "b200", "--cases", "16", "--seed", "3")
    limits = ("--triage-minutes", "1", "--json", "report.json")
    done = project.harness("fuzz", "transformer_engine:losses", *given, *limits)
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert done.status == 1
    assert {finding["case"]["layouts"]["logits"] for finding in report["findings"]} == {"batch-strided"}


@pytest.mark.nightly
def test_every_op_runs_and_the_undefined_row_map_is_found(tmp_path: Path) -> None:
    project = Project(tmp_path)
    given = ("--with", "transformer-engine==2.20.2", "--device", "b200", "--cases", "28", "--seed", "1")
    done = project.harness("fuzz", "transformer_engine", *given, "--triage-minutes", "1", "--json", "report.json")
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert done.status == 1
    assert (report["abstained"], len({row["op"] for row in report["op_checks"] if row["passed"] + row["failed"]})) == (
        0,
        OPS,
    )
    assert UNDEFINED in {finding["signature"] for finding in report["findings"]}
