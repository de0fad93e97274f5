"""The log of compute-sanitizer, read launch by launch by the processes of a command and at the end by their parent."""

from pathlib import Path

import pytest

from harness import catalogue
from harness.model.case import Case, DType
from harness.model.compute_sanitizer_report import Sanitized, Tool
from harness.model.engine_traits import CUDA
from harness.model.run import Completed, Run
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.watched.sanitizer_reports import SanitizerReports, rest_of_reports
from harness.watched.watch_records import LaunchFailure, SanitizerPlan
from harness.watched.watch_report import WatchedCommand

REPORT = """\
========= Invalid __global__ write of size 4 bytes
=========     at {kernel}+0x50 in kernels.py:{line}
=========     by thread (20,0,0) in block (0,0,0)
=========     Access at 0x7f0000000050 is out of bounds
=========
"""
COMMAND = WatchedCommand(words=("python", "train.py"), device=catalogue.devices()[0], options=())


@pytest.fixture
def plan(tmp_path: Path) -> SanitizerPlan:
    return SanitizerPlan(tool=Tool.MEMCHECK, version="2025.3", log=str(tmp_path / "log"))


def found_at_launch(sanitized: Sanitized) -> LaunchFailure:
    """What a process records of a launch with this report."""
    case = Case(op="", dims={}, dtype=DType.FP32, device=COMMAND.device)
    run = Run(case=case, engine=CUDA.name, ending=Completed(), sanitizer=sanitized)
    (fail,) = (verdict for verdict in registry.judge_all(run, {}, {}) if isinstance(verdict, Fail))
    return LaunchFailure(test="one", fail=fail, dtype=case.dtype, launch=None, called_from=None)


def append(plan: SanitizerPlan, text: str) -> None:
    with Path(plan.log).open("a", encoding="utf-8") as file:
        file.write(text)


def test_a_launch_gets_what_was_printed_since_the_one_before(plan: SanitizerPlan, tmp_path: Path) -> None:
    append(plan, REPORT.format(kernel="earlier", line=3))
    reports = SanitizerReports(plan, tmp_path / "accepts.toml")
    append(plan, REPORT.format(kernel="mine", line=7) + REPORT.format(kernel="of_another_process", line=9))
    (record,) = reports.of_launch("mine", is_patient=False).records
    assert (record.at.kernel, str(record.at.source)) == ("mine", "kernels.py:7")
    assert reports.of_launch("mine", is_patient=False).records == ()


def test_a_report_that_is_cut_is_read_whole_later(plan: SanitizerPlan, tmp_path: Path) -> None:
    reports = SanitizerReports(plan, tmp_path / "accepts.toml")
    first, rest = REPORT.format(kernel="mine", line=7).split("mine")
    append(plan, first)
    assert reports.of_launch("mine", is_patient=False).records == ()
    append(plan, f"mine{rest}")
    (record,) = reports.of_launch("mine", is_patient=False).records
    assert record.text == "Invalid __global__ write of size 4 bytes"
    append(plan, REPORT.format(kernel="mine", line=8))
    (record,) = reports.of_launch("mine", is_patient=False).records
    assert str(record.at.source) == "kernels.py:8"


def test_accepted_reports_carry_their_reason(plan: SanitizerPlan, tmp_path: Path) -> None:
    accepts = tmp_path / "accepts.toml"
    accepts.write_text('[[accept]]\nkernel = "mine"\nreason = "known"\n', encoding="utf-8")
    reports = SanitizerReports(plan, accepts)
    append(plan, REPORT.format(kernel="mine", line=7))
    assert [record.accepted for record in reports.of_launch("mine", is_patient=False).records] == ["known"]


def test_silence_proves_nothing_where_the_tool_is_not_in_the_process(plan: SanitizerPlan, tmp_path: Path) -> None:
    sanitized = SanitizerReports(plan, tmp_path / "accepts.toml").of_launch("mine", is_patient=False)
    assert sanitized.unproven.endswith("is not in the process")


def test_reports_that_no_process_took_belong_to_the_command(plan: SanitizerPlan) -> None:
    append(plan, REPORT.format(kernel="mine", line=7) + REPORT.format(kernel="at::native::fill", line=9))
    _, torchs = rest_of_reports(plan, (), (), COMMAND)
    assert (torchs.test, torchs.fail.signature.kernel) == ("python train.py", "at::native::fill")


def test_a_report_on_a_launch_is_not_reported_again_for_the_command(
    plan: SanitizerPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reports = SanitizerReports(plan, tmp_path / "accepts.toml")
    Path("kernels.py").write_text("def mine(p):\n    tl.store(p, 1)\n", encoding="utf-8")
    append(plan, REPORT.format(kernel="mine", line=2) + REPORT.format(kernel="at::native::fill", line=9))
    known = found_at_launch(reports.of_launch("mine", is_patient=False))
    assert "tl.store(p, 1)" in known.fail.signature.place
    (rest,) = rest_of_reports(plan, (), (known,), COMMAND)
    assert rest.fail.signature.kernel == "at::native::fill"
