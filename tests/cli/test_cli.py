"""The command line as a person or a CI system sees it: output and exit status of a process."""

import json
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.model.case import Case
from harness.wire import from_json
from tests.cli.command_line import ENGINE, ON, Project
from tests.cli.fake_engine import suite_of

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.write("suites/norm.py", suite_of("overlapping", "faultless"))
    return project


FINDING = """\
WARNING  write-overlap  layer_norm_bwd_kernel  in overlapping           {id}
────────────────────────────────────────────────────────────────────────────────
dx[2, 0] and 31 more cells were stored by programs 0 and 1, with the same bytes
(layernorm.py:431)

  fla/modules/layernorm.py:431

  smallest case  overlapping  T=3 D=1 G=1  fp32
  device         rtx-pro-6000: 188 SMs, sm_120 (NVIDIA RTX PRO 6000 Blackwell
                 Workstation Edition)
  launch         grid 188 x 1 x 1; BT: 32, num_warps: 4 (config 1 of 6)
  first seen     overlapping  T=48 D=48 G=1  fp32, seed 1
  confirmed      alone, in a fresh process: 5 of 5 times
  seen           in {seen} cases of the search; first in case 1, after {seconds:g} s

Several programs do the same work and store the same result: harmless by itself,
but it wastes bandwidth, and it turns into a race as soon as their values differ
by one rounding or the kernel updates in place.

  replay         harness replay {id} --engine tests.cli.fake_engine:FakeEngine
  explain        harness findings --explain write-overlap
"""


def test_a_finding_is_printed_whole_and_can_be_replayed_by_its_id(project: Project) -> None:
    done = project.harness(
        "fuzz", "suites/norm.py", "--cases", "40", "--oracle", "write-overlap", *ON, "--json", "r.json"
    )
    report: dict[str, Any] = json.loads((project.folder / "r.json").read_text(encoding="utf-8"))
    (finding,) = report["findings"]
    assert done.out.startswith(
        FINDING.format(id=finding["id"], seen=finding["sightings"], seconds=finding["first_seen"]["seconds"])
    )
    assert done.status == 1
    assert done.err.splitlines()[-4:] == [
        "next:",
        f"  harness keep {finding['id']}            replay it first from now on, as a regression",
        "  harness report                   write all findings as a page",
        f"  harness report {finding['id']} --issue  write it for an issue tracker",
    ]
    again = project.harness("replay", finding["id"], *ENGINE)
    assert (again.status, again.out.splitlines()[-1]) == (1, f"{finding['id']} fails again")
    assert again.out.splitlines()[:10] == done.out.splitlines()[:10]


def test_the_json_report_is_complete(project: Project) -> None:
    project.harness(
        "fuzz", "suites", "--op", "overlapping", "--cases", "20", *ON, "--json", "r.json", "--oracle", "write-overlap"
    )
    report: dict[str, Any] = json.loads((project.folder / "r.json").read_text(encoding="utf-8"))
    (finding,) = report.pop("findings")
    passed, failed = report.pop("passed"), report.pop("failed")
    assert (passed + failed, finding["sightings"]) == (20, failed)
    assert (seconds := report.pop("seconds")) > 0
    assert report.pop("triage_seconds") > 0
    assert set(report.pop("versions")) >= {"python", "torch", "triton", "hypothesis"}
    op, device = "suites/norm.py:overlapping", "rtx-pro-6000"
    row = {"op": op, "device": device, "oracle": "write-overlap"}
    checked = [{**row, "outcome": outcome, "cases": count} for outcome, count in (("fail", failed), ("pass", passed))]
    assert report.pop("verdicts") == [row for row in checked if row["cases"]]
    sizes: list[Any] = report.pop("tested_sizes")
    assert sum(row["cases"] for row in sizes) == 20
    assert {(row["op"], row["dim"], type(row["size"]), type(row["sm_count"])) for row in sizes} == {(op, "T", int, int)}
    assert report.pop("builds") >= report.pop("compiled_builds") >= 0
    (checks,) = report.pop("op_checks")
    assert (checks["op"], checks["device"], checks["passed"], checks["failed"]) == (op, device, passed, failed)
    promising: list[Any] = report.pop("promising")
    assert {(row["op"], row["device"], row["reason"]) for row in promising} == {(op, device, "new launch")}
    assert report == {
        "kind": "campaign",
        "schema_version": 2,
        "cases": 20,
        "abstained": 0,
        "abstain_reasons": {},
        "accepted_reports": {},
        "gpu_wait_share": None,
        "seed": 1,
        "devices": ["rtx-pro-6000 (188 SMs, sm_120)"],
        "libraries": [],
        "interrupted": False,
        "missing": [],
        "row_checks": [],
        "kernels": ["layer_norm_bwd_kernel"],
        "kernel_lines": [],
        "cut_off": [],
        "dropped_cases": [],
        "avoided": [],
        "set_aside": [],
        "regressions": 0,
        "unchecked_regressions": [],
        "suite_errors": [],
        "known_findings": [],
        "notices": [],
        "unchecked": [],
        "uncompiled": {},
        "untried": {},
    }
    case, first = (from_json(json.dumps(finding.pop(key)), Case) for key in ("case", "first_case"))
    assert (case.dims, first.dims) == ({"T": 3, "D": 1, "G": 1}, {"T": 48, "D": 48, "G": 1})
    assert finding.pop("launch")["config"] == "BT: 32, num_warps: 4"
    identity = finding.pop("id")
    seen = finding.pop("first_seen")
    assert (seen["case_number"], 0 <= seen["seconds"] <= seconds + 0.05) == (1, True)  # it is rounded
    assert finding.pop("meaning").startswith("Several programs do the same work")
    assert finding == {
        "kind": "finding",
        "schema_version": 2,
        "oracle": "write-overlap",
        "severity": "warning",
        "kernel": "layer_norm_bwd_kernel",
        "op": "suites/norm.py:overlapping",
        "place": "layernorm.py:431",
        "signature": "write-overlap: layer_norm_bwd_kernel layernorm.py:431",
        "message": "dx[2, 0] and 31 more cells were stored by programs 0 and 1, with the same bytes (layernorm.py:431)",
        "source": {"file": "fla/modules/layernorm.py", "line": 431},
        "confirmed": True,
        "confirmation": "confirmed",
        "repeats": {"shown": 5, "runs": 5, "other_result": ""},
        "pictures": [],
        "first_pictures": [],
        "excerpt": None,
        "hardware_blame": None,
        "miscompilation": None,
        "idiom": "",
        "rule": "",
        "symptoms": [],
        "watched": None,
        "sightings": failed,
        "libraries": [],
        "preceding_case": None,
        "versions": {},
        "replay": f"harness replay {identity} {' '.join(ENGINE)}",
        "engine_options": list(ENGINE),
    }


def test_compilers_are_refused_without_a_hardware_gpu(project: Project) -> None:
    done = project.harness("fuzz", "suites", "--compilers", "2", *ON)
    assert (done.status, done.out) == (2, "")
    assert "--compilers compile ahead of real GPUs: add --engine cuda" in done.err


def test_a_survey_refuses_json(project: Project) -> None:
    done = project.harness("fuzz", "suites", "--survey", "coverage", "--json", "table.json", *ON)
    assert (done.status, done.out) == (2, "")
    assert done.err == "harness: --json goes with a search: a survey prints a table\n"


def test_warnings_pass_where_only_errors_count(project: Project) -> None:
    done = project.harness("fuzz", "suites", "--cases", "10", "--fail-on", "error", "--oracle", "write-overlap", *ON)
    assert (done.status, "1 finding: 1 warning" in done.out) == (0, True)


KNOWN = """
[[issue]]
signature = "write-overlap: layer_norm_bwd_kernel layernorm.py:431"
link = "https://example.org/1249"
expires = {expires}
"""


@pytest.mark.parametrize(("expires", "status", "done"), [("9999-12-31", 0, "1 of them known"), ("2001-01-01", 1, "")])
def test_a_known_finding_is_shown_and_fails_nothing_until_it_expires(
    project: Project, expires: str, status: int, done: str
) -> None:
    project.write("known_issues.toml", KNOWN.format(expires=expires))
    found = project.harness("fuzz", "suites", "--cases", "10", "--oracle", "write-overlap", *ON)
    assert (found.status, "1 finding: 1 warning" in found.out) == (status, True)
    assert ("https://example.org/1249" in found.out, "expired" in found.out) == (bool(done), not done)
    assert done in found.out
    assert ("next:" in found.err) is (status == 1)


def test_a_kept_finding_becomes_a_regression_for_pytest(project: Project) -> None:
    project.harness("fuzz", "suites", "--cases", "10", "--oracle", "write-overlap", *ON, "--json", "r.json")
    (finding,) = json.loads((project.folder / "r.json").read_text(encoding="utf-8"))["findings"]
    done = project.harness("keep", finding["id"], "--with", "fla-core==0.6.0")
    kept = json.loads((project.folder / f"suites/regressions/{finding['id']}.json").read_text(encoding="utf-8"))
    assert (done.status, done.out) == (0, f"suites/regressions/{finding['id']}.json\n")
    assert (kept["case"], kept["libraries"]) == (finding["case"], ["fla-core==0.6.0"])


def test_no_finding_is_clean(project: Project) -> None:
    done = project.harness("fuzz", "suites", "--op", "faultless", "--cases", "10", "--oracle", "write-overlap", *ON)
    lines = done.out.splitlines()
    assert (done.status, lines[-1]) == (0, "no findings")
    assert lines[-2].startswith("ran 10 cases on rtx-pro-6000 (188 SMs, sm_120) in ")
    assert lines[-2].endswith("seed 1): 10 passed, 0 failed, 0 abstained")


def test_a_search_that_checks_nothing_is_no_success(project: Project) -> None:
    project.write("suites/odd.py", suite_of("unknown"))
    done = project.harness("fuzz", "suites/odd.py", "--cases", "5", *ON)
    assert (done.status, done.out.splitlines()[-1]) == (
        3,
        "nothing could be checked: this says nothing about the kernels",
    )
    assert (
        "5  the engine cannot execute tt.histogram (layer_norm_bwd_kernel, layernorm.py:431; Triton 3.6.0)" in done.out
    )


def test_the_same_seed_finds_the_same(project: Project) -> None:
    reports: list[Any] = []
    for processes in ("1", "3"):
        project.harness("fuzz", "suites", "--cases", "40", "--processes", processes, *ON, "--json", "r.json")
        report = json.loads((project.folder / "r.json").read_text(encoding="utf-8"))
        for finding in report["findings"]:
            del finding["first_seen"]["seconds"]
        reports.append({**report, "seconds": None, "triage_seconds": None, "compiled_builds": None})
    assert reports[0] == reports[1]


def test_a_given_sm_count_is_not_changed(project: Project) -> None:
    project.harness("fuzz", "suites", "--cases", "10", "--sm", "20", *ON, "--json", "r.json")
    report = json.loads((project.folder / "r.json").read_text(encoding="utf-8"))
    assert report["devices"] == ["rtx-pro-6000 (20 SMs, sm_120)"]
    assert report["findings"][0]["case"]["device"]["sm_count"] == 20


def test_a_search_writes_only_to_its_own_folder(project: Project) -> None:
    project.harness("fuzz", "suites", "--cases", "10", *ON)
    assert sorted(path.name for path in project.folder.iterdir()) == [".harness", "suites"]
    assert (project.folder / ".harness" / ".gitignore").read_text(encoding="utf-8") == "*\n"
    assert list((project.folder / ".harness" / "scratch").rglob("pool-*")) == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("fuzz", "suites/nrm.py"), "unknown suite 'suites/nrm.py': did you mean suites/norm.py"),
        (("fuzz", "suites", "--device", "rtx-pro-600"), "unknown device 'rtx-pro-600': did you mean rtx-pro-6000"),
        (("fuzz", "suites", "--op", "overlaping"), "unknown op 'overlaping': did you mean overlapping?"),
        (("fuzz", "suites", "--oracle", "overlap"), "unknown oracle 'overlap': did you mean write-overlap?"),
        (("fuzz", "suites", "--engine", "cudaa"), "unknown engine 'cudaa': did you mean cuda or cuda,ptx or"),
        (("fuzz", "suites", "--engine", "cuda,virtul"), "unknown engine 'cuda,virtul': did you mean cuda,virtual or"),
        (("matrix", "suites", "--devices", "h200"), "unknown option '--devices': did you mean --device"),
        (("matrix", "suites", "--device", "h20o"), "unknown device 'h20o': did you mean h20"),
        (("matrix", "suites", "--device", "pvc"), "a matrix compiles to machine code, and Triton's wheel has no "),
        (("fuzz", "suites", "--case", "3"), "unknown option '--case': did you mean --cases"),
        (("fuzz", "suites", "--cases", "few"), "argument --cases: 'few' is not a whole number"),
        (("fuzz", "suites", "--cases", "0"), "argument --cases: 0 is less than 1"),
        (("fuzz", "suites", "--sm", "-1"), "argument --sm: -1 is less than 1"),
        (("fuzz", "suites", "--minutes", "nan"), "argument --minutes: nan is no time"),
        (("fuzz", "suites", "--device", ","), "--device names no device"),
        (("fuzz", "suites", "--json", "no/such/r.json"), "--json no/such/r.json: there is no folder no/such"),
        (("fuzz", "suites", "--known", "typo.toml"), "argument --known: there is no file 'typo.toml'"),
        (("findings", "--known", "typo.toml"), "argument --known: there is no file 'typo.toml'"),
        (("fuzz", "."), ""),
        (("fuzz", "empty"), "no suite in the folder 'empty'"),
        (("fuzz", "broken.py"), "broken.py:2 fails on import: ZeroDivisionError: division by zero"),
        (("fuzz", "suites", "--with", "no such thing"), ""),
        (("fuzz",), "the following arguments are required: SUITE"),
        (("fuss",), "unknown command 'fuss': did you mean fuzz?"),
        (("replay", "0badcafe"), "unknown finding '0badcafe'"),
        (("replay", "nothing.json"), "there is no nothing.json: name a file of findings, or the id of a stored one"),
        (("replay", "broken.py"), "broken.py: not readable as JSON"),
        (("replay", "foreign.json"), "foreign.json: not a document of the harness: expected an object whose `kind` "),
    ],
)  # fmt: skip
def test_wrong_input_ends_with_one_line_and_status_2(project: Project, arguments: tuple[str, ...], line: str) -> None:
    (project.folder / "empty").mkdir()
    project.write("broken.py", "from harness import suite\n1 / 0\n")
    project.write("foreign.json", '{"hello": 1}')
    done = project.harness(*arguments)
    assert done.out == ""
    assert (done.status, len(done.err.splitlines())) == (2, 1), done.err
    assert done.err.startswith(f"harness: {line}")


def test_a_missing_library_is_named_with_the_option_for_it(project: Project) -> None:
    project.write("suites/norm.py", suite_of("faultless", options=', requires=("no-such-library",)'))
    done = project.harness("fuzz", "suites", "--cases", "5", *ON)
    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines()[-1] == (
        "harness: suites/norm.py tests no-such-library, which is not installed: add --with and its folder or wheel"
    )


def test_chosen_ops_need_the_libraries_of_their_own_suites_alone(project: Project) -> None:
    project.write("suites/norm.py", suite_of("unknown", options=', requires=("no-such-library",)'))
    project.write("suites/other.py", suite_of("faultless"))
    assert project.harness("fuzz", "suites", "--op", "faultless", "--cases", "2", *ON).status == 0
    assert project.harness("fuzz", "suites", "--cases", "2", *ON).status == 2


@pytest.mark.parametrize(
    ("op", "status", "row"),
    [
        ("faultless", 0, "launches of 1 kernel in 4 cases: 4 executed, 0 abstained"),
        ("unknown", 3, "0/2  abstains: tt.h"),
    ],
)
def test_coverage_prints_executed_launches_and_fails_for_abstentions(
    project: Project, op: str, status: int, row: str
) -> None:
    project.write("suites/one.py", suite_of(op))
    done = project.harness(
        "fuzz", "suites/one.py", "--survey", "coverage", "--cases", "4", "--device", "a100,h200", *ENGINE
    )
    assert done.status == status
    assert row in done.out


def test_an_interrupt_reports_findings_and_leaves_no_process(project: Project) -> None:
    project.write("suites/norm.py", suite_of("slow"))
    process = project.start("fuzz", "suites", "--minutes", "5", "--oracle", "write-overlap", *ON)
    assert process.stderr
    while not process.stderr.readline().startswith("seen: warning, write-overlap"):
        assert process.poll() is None
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert (process.returncode, "1 finding: 1 warning" in out, "interrupted after" in out) == (1, True, True)
    gone, alive = psutil.wait_procs(children, timeout=10)
    assert (bool(gone), alive) == (True, [])


def test_an_interrupt_without_findings_ends_with_130(project: Project) -> None:
    project.write("suites/norm.py", suite_of("slow"))
    process = project.start("fuzz", "suites", "--minutes", "5", "--oracle", "bounds", *ON)
    assert process.stderr
    process.stderr.readline()  # it has begun
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in err, "interrupted after" in out) == (130, False, True)


def test_devices_are_listed_by_their_option_value(project: Project) -> None:
    done = project.harness("devices")
    lines = done.out.splitlines()
    (line,) = [line for line in lines if line.startswith("rtx-pro-6000 ")]
    assert done.status == 0
    assert line.split()[:6] == ["rtx-pro-6000", "blackwell", "sm_120", "188", "99", "KiB"]


def test_the_doctor_lists_every_part(project: Project) -> None:
    done = project.harness("doctor")
    assert done.status == 0
    for part in ("Python", "torch", "triton", "ptxas of Triton", "compute-sanitizer", "Triton's sanitizers", "GPU"):
        assert f" {part}: " in done.out


def test_replaying_a_fixed_case_ends_with_0(project: Project) -> None:
    project.harness("fuzz", "suites", "--cases", "10", *ON, "--oracle", "write-overlap", "--json", "r.json")
    text = (project.folder / "r.json").read_text(encoding="utf-8")
    project.write("fixed.json", text.replace("suites/norm.py:overlapping", "suites/norm.py:faultless"))
    done = project.harness("replay", "fixed.json", *ENGINE)
    assert done.status == 0
    assert done.out.splitlines()[-1].endswith(
        " is gone: write-overlap: layer_norm_bwd_kernel layernorm.py:431 does not show"
    )


def test_a_replay_ends_with_0_if_only_unrelated_warnings_remain(project: Project) -> None:
    project.harness("fuzz", "suites", "--cases", "10", *ON, "--oracle", "write-overlap", "--json", "r.json")
    report = json.loads((project.folder / "r.json").read_text(encoding="utf-8"))
    report["findings"][0] |= {"oracle": "bounds", "severity": "error"}
    project.write("mended.json", json.dumps(report))
    done = project.harness("replay", "mended.json", *ENGINE)
    assert done.status == 0
    assert "other findings of this case:\nWARNING  write-overlap  layer_norm_bwd_kernel  in overlapping" in done.out
    assert done.out.splitlines()[-1].endswith(
        " is gone: bounds: layer_norm_bwd_kernel layernorm.py:431 does not show; the case has 1 other finding"
    )


def test_one_finding_of_a_report_can_be_chosen_by_number_or_id(project: Project) -> None:
    project.harness("fuzz", "suites", "--cases", "10", *ON, "--oracle", "write-overlap", "--json", "r.json")
    report = json.loads((project.folder / "r.json").read_text(encoding="utf-8"))
    digest = report["findings"][0]["id"]
    for chosen in ("1", digest):
        assert project.harness("replay", "r.json", "--finding", chosen, *ENGINE).status == 1
    done = project.harness("replay", "r.json", "--finding", "2", *ENGINE)
    assert (done.status, done.err.startswith("harness: unknown finding '2'")) == (2, True)


def test_an_error_of_the_harness_ends_with_2_and_keeps_findings(project: Project) -> None:
    project.write("suites/norm.py", suite_of("dying"))
    done = project.harness("fuzz", "suites", "--cases", "200", "--oracle", "write-overlap", *ON)
    assert (done.status, "1 finding: 1 warning" in done.out, "Traceback" in done.out) == (2, True, False)
    assert "the engine itself is broken" in done.err


@pytest.mark.parametrize("isolation", ["worker", pytest.param("case", marks=pytest.mark.nightly)])
def test_a_search_for_some_minutes_works_with_each_isolation(project: Project, isolation: str) -> None:
    done = project.harness(
        "fuzz", "suites", "--minutes", "0.1", "--isolation", isolation, *ON, "--oracle", "write-overlap"
    )
    assert (done.status, "1 finding: 1 warning" in done.out) == (1, True)
