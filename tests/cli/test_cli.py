"""The command line, as a person or a CI system uses it: through a process, by its output and its exit status."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.model.case import Case
from harness.wire import from_json
from tests.cli.fake_engine import suite_of

pytestmark = [pytest.mark.slow, pytest.mark.once]

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ("--engine", "tests.cli.fake_engine:Pretending")
ON = ("--device", "rtx-pro-6000", "--seed", "1", *ENGINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    status: int
    out: str
    err: str


class Place:
    """A folder with suites, and the harness to use there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "harness.cli", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def harness(self, *arguments: str) -> Said:
        process = self.begin(*arguments)
        out, err = process.communicate(timeout=120)
        return Said(status=process.returncode, out=out, err=err)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("suites/norm.py", suite_of("overlapping", "faultless"))
    return place


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
  first seen     overlapping  T=48 D=48 G=1  fp32
  confirmed      alone, in a fresh process: 5 of 5 times
  seen           in {seen} cases of the search

Several programs do the same work and store the same result: harmless by itself,
but it wastes bandwidth, and it turns into a race as soon as their values differ
by one rounding or the kernel updates in place.

  replay         harness replay {id} --engine tests.cli.fake_engine:Pretending
"""


def test_a_finding_is_printed_whole_and_can_be_replayed_by_its_id(place: Place) -> None:
    said = place.harness(
        "fuzz", "suites/norm.py", "--cases", "40", "--oracle", "write-overlap", *ON, "--json", "r.json"
    )
    report: dict[str, Any] = json.loads((place.folder / "r.json").read_text(encoding="utf-8"))
    (finding,) = report["findings"]
    assert said.out.startswith(FINDING.format(id=finding["id"], seen=finding["sightings"]))
    assert said.status == 1
    again = place.harness("replay", finding["id"], *ENGINE)
    assert (again.status, again.out.splitlines()[-1]) == (1, f"{finding['id']} fails again")
    assert again.out.splitlines()[:10] == said.out.splitlines()[:10]


def test_the_report_says_everything_that_a_tool_needs(place: Place) -> None:
    place.harness(
        "fuzz", "suites", "--op", "overlapping", "--cases", "20", *ON, "--json", "r.json", "--oracle", "write-overlap"
    )
    report: dict[str, Any] = json.loads((place.folder / "r.json").read_text(encoding="utf-8"))
    (finding,) = report.pop("findings")
    passed, failed = report.pop("passed"), report.pop("failed")
    assert (passed + failed, finding["sightings"]) == (20, failed)
    assert report.pop("seconds") > 0
    assert set(report.pop("versions")) >= {"python", "torch", "triton", "hypothesis"}
    op, device = "suites/norm.py:overlapping", "rtx-pro-6000"
    judged = [[op, device, "write-overlap", outcome, count] for outcome, count in (("fail", failed), ("pass", passed))]
    assert report.pop("verdicts") == [row for row in judged if row[-1]]
    area: list[Any] = report.pop("area")
    assert sum(row[-1] for row in area) == 20
    assert {(*row[:2], type(row[2]), type(row[3])) for row in area} == {(op, "T", int, int)}
    assert report.pop("builds") >= report.pop("compiled") >= 0
    assert report == {
        "format": "kernel-harness-findings/1",
        "cases": 20,
        "abstained": 0,
        "reasons": {},
        "accepted": {},
        "waiting": None,
        "seed": 1,
        "devices": ["rtx-pro-6000 (188 SMs, sm_120)"],
        "with": [],
        "interrupted": False,
        "known": [],
        "notices": [],
    }
    case, first = (from_json(json.dumps(finding.pop(key)), Case) for key in ("case", "first_case"))
    assert (case.dims, first.dims) == ({"T": 3, "D": 1, "G": 1}, {"T": 48, "D": 48, "G": 1})
    assert finding.pop("launch")["config"] == "BT: 32, num_warps: 4"
    identity = finding.pop("id")
    assert finding.pop("meaning").startswith("Several programs do the same work")
    assert finding == {
        "oracle": "write-overlap",
        "severity": "warning",
        "kernel": "layer_norm_bwd_kernel",
        "op": "suites/norm.py:overlapping",
        "place": "layernorm.py:431",
        "signature": "write-overlap: layer_norm_bwd_kernel layernorm.py:431",
        "message": "dx[2, 0] and 31 more cells were stored by programs 0 and 1, with the same bytes (layernorm.py:431)",
        "source": {"file": "fla/modules/layernorm.py", "line": 431},
        "config": "BT: 32, num_warps: 4",
        "confirmed": True,
        "repeats": {"shown": 5, "runs": 5, "otherwise": ""},
        "pictures": [],
        "first_pictures": [],
        "excerpt": None,
        "sightings": failed,
        "with": [],
        "replay": f"harness replay {identity} {' '.join(ENGINE)}",
        "where": list(ENGINE),
    }


def test_compiling_ahead_is_for_real_gpus(place: Place) -> None:
    said = place.harness("fuzz", "suites", "--compilers", "2", *ON)
    assert (said.status, said.out) == (2, "")
    assert "--compilers compile ahead of real GPUs: add --engine cuda" in said.err


def test_warnings_pass_where_only_errors_count(place: Place) -> None:
    said = place.harness("fuzz", "suites", "--cases", "10", "--fail-on", "error", "--oracle", "write-overlap", *ON)
    assert (said.status, "1 finding: 1 warning" in said.out) == (0, True)


KNOWN = """
[[issue]]
signature = "write-overlap: layer_norm_bwd_kernel layernorm.py:431"
link = "https://example.org/1249"
expires = {expires}
"""


@pytest.mark.parametrize(("expires", "status", "said"), [("9999-12-31", 0, "1 of them known"), ("2001-01-01", 1, "")])
def test_a_known_finding_is_shown_and_fails_nothing_until_it_expires(
    place: Place, expires: str, status: int, said: str
) -> None:
    place.write("known_issues.toml", KNOWN.format(expires=expires))
    found = place.harness("fuzz", "suites", "--cases", "10", "--oracle", "write-overlap", *ON)
    assert (found.status, "1 finding: 1 warning" in found.out) == (status, True)
    assert ("https://example.org/1249" in found.out, "expired" in found.out) == (bool(said), not said)
    assert said in found.out


def test_a_finding_that_is_kept_becomes_a_regression_for_pytest(place: Place) -> None:
    place.harness("fuzz", "suites", "--cases", "10", "--oracle", "write-overlap", *ON, "--json", "r.json")
    (finding,) = json.loads((place.folder / "r.json").read_text(encoding="utf-8"))["findings"]
    said = place.harness("keep", finding["id"], "--with", "fla-core==0.6.0")
    kept = json.loads((place.folder / f"suites/regressions/{finding['id']}.json").read_text(encoding="utf-8"))
    assert (said.status, said.out) == (0, f"suites/regressions/{finding['id']}.json\n")
    assert (kept["case"], kept["with"]) == (finding["case"], ["fla-core==0.6.0"])


def test_no_finding_is_clean(place: Place) -> None:
    said = place.harness("fuzz", "suites", "--op", "faultless", "--cases", "10", "--oracle", "write-overlap", *ON)
    lines = said.out.splitlines()
    assert (said.status, lines[-1]) == (0, "no findings")
    assert lines[-2].startswith("ran 10 cases on rtx-pro-6000 (188 SMs, sm_120) in ")
    assert lines[-2].endswith("seed 1): 10 passed, 0 failed, 0 abstained")


def test_what_cannot_be_judged_is_no_success(place: Place) -> None:
    place.write("suites/odd.py", suite_of("unknown"))
    said = place.harness("fuzz", "suites/odd.py", "--cases", "5", *ON)
    assert (said.status, said.out.splitlines()[-1]) == (
        3,
        "nothing could be judged: this says nothing about the kernels",
    )
    assert (
        "5  the engine cannot execute tt.histogram (layer_norm_bwd_kernel, layernorm.py:431; Triton 3.6.0)" in said.out
    )


def test_the_same_seed_finds_the_same(place: Place) -> None:
    reports: list[Any] = []
    for processes in ("1", "3"):
        place.harness("fuzz", "suites", "--cases", "40", "--processes", processes, *ON, "--json", "r.json")
        report = json.loads((place.folder / "r.json").read_text(encoding="utf-8"))
        reports.append({**report, "seconds": None, "compiled": None})
    assert reports[0] == reports[1]


def test_an_sm_count_that_is_given_is_kept(place: Place) -> None:
    place.harness("fuzz", "suites", "--cases", "10", "--sm", "20", *ON, "--json", "r.json")
    report = json.loads((place.folder / "r.json").read_text(encoding="utf-8"))
    assert report["devices"] == ["rtx-pro-6000 (20 SMs, sm_120)"]
    assert report["findings"][0]["case"]["device"]["sm_count"] == 20


def test_a_run_leaves_nothing_behind_but_its_own_folder(place: Place) -> None:
    place.harness("fuzz", "suites", "--cases", "10", *ON)
    assert sorted(path.name for path in place.folder.iterdir()) == [".harness", "suites"]
    assert (place.folder / ".harness" / ".gitignore").read_text(encoding="utf-8") == "*\n"
    assert list((place.folder / ".harness" / "scratch").rglob("pool-*")) == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("fuzz", "suites/nrm.py"), "unknown suite 'suites/nrm.py': did you mean suites/norm.py?"),
        (("fuzz", "suites", "--device", "rtx-pro-600"), "unknown device 'rtx-pro-600': did you mean rtx-pro-6000"),
        (("fuzz", "suites", "--op", "overlaping"), "unknown op 'overlaping': did you mean overlapping?"),
        (("fuzz", "suites", "--oracle", "overlap"), "unknown oracle 'overlap': did you mean write-overlap?"),
        (("fuzz", "suites", "--engine", "cudaa"), "unknown engine 'cudaa': did you mean cuda or cuda,virtual?"),
        (("fuzz", "suites", "--engine", "cuda,virtul"), "unknown engine 'cuda,virtul': did you mean cuda,virtual or"),
        (("conform", "suites", "--devices", "h200"), "unknown option '--devices': did you mean --device"),
        (("conform", "suites", "--device", "h20o"), "unknown device 'h20o': did you mean h20"),
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
        (("fuzz", "broken.py"), "broken.py fails on import: ZeroDivisionError: division by zero"),
        (("fuzz", "suites", "--with", "no such thing"), ""),
        (("fuzz",), "the following arguments are required: SUITE"),
        (("fuss",), "argument COMMAND: invalid choice: 'fuss'"),
        (("replay", "0badcafe"), "unknown finding '0badcafe'"),
        (("replay", "nothing.json"), "cannot read nothing.json: No such file or directory"),
        (("replay", "broken.py"), "broken.py: not readable as JSON"),
        (("replay", "foreign.json"), "foreign.json: neither a report (`findings`), nor a finding (`case`), nor a case"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_line_and_exit_status_2(place: Place, arguments: tuple[str, ...], line: str) -> None:
    (place.folder / "empty").mkdir()
    place.write("broken.py", "from harness import suite\n1 / 0\n")
    place.write("foreign.json", '{"hello": 1}')
    said = place.harness(*arguments)
    assert said.out == ""
    assert (said.status, len(said.err.splitlines())) == (2, 1), said.err
    assert said.err.startswith(f"harness: {line}")


def test_a_library_that_is_not_installed_is_named_with_the_option_that_brings_it(place: Place) -> None:
    place.write("suites/norm.py", suite_of("faultless", options=', requires=("no-such-library",)'))
    said = place.harness("fuzz", "suites", "--cases", "5", *ON)
    assert (said.status, said.out) == (2, "")
    assert said.err.splitlines()[-1] == (
        "harness: suites/norm.py tests no-such-library, which is not installed: add --with no-such-library"
    )


@pytest.mark.parametrize(
    ("op", "status", "row"),
    [
        ("faultless", 0, "launches of 1 kernel in 4 cases: 4 executed, 0 abstained"),
        ("unknown", 3, "0/2  abstains: tt.h"),
    ],
)
def test_coverage_says_what_runs_and_fails_where_something_does_not(
    place: Place, op: str, status: int, row: str
) -> None:
    place.write("suites/one.py", suite_of(op))
    said = place.harness("coverage", "suites/one.py", "--cases", "2", "--device", "a100", "--device", "h200", *ENGINE)
    assert said.status == status
    assert row in said.out


def test_an_interrupt_reports_what_was_found_so_far_and_leaves_no_process(place: Place) -> None:
    place.write("suites/norm.py", suite_of("slow"))
    process = place.begin("fuzz", "suites", "--minutes", "5", "--oracle", "write-overlap", *ON)
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


def test_an_interrupt_before_anything_was_found_exits_with_130(place: Place) -> None:
    place.write("suites/norm.py", suite_of("slow"))
    process = place.begin("fuzz", "suites", "--minutes", "5", "--oracle", "bounds", *ON)
    assert process.stderr
    process.stderr.readline()  # it has begun
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in err, "interrupted after" in out) == (130, False, True)


def test_devices_are_listed_by_the_name_to_type(place: Place) -> None:
    said = place.harness("devices")
    lines = said.out.splitlines()
    (line,) = [line for line in lines if line.startswith("rtx-pro-6000 ")]
    assert said.status == 0
    assert line.split()[:6] == ["rtx-pro-6000", "blackwell", "sm_120", "188", "99", "KiB"]


def test_the_doctor_says_what_is_here_without_importing_it(place: Place) -> None:
    said = place.harness("doctor")
    assert said.status == 0
    for part in ("Python", "torch", "triton", "ptxas of Triton", "compute-sanitizer", "Triton's sanitizers", "GPU"):
        assert f" {part}: " in said.out


def test_replaying_a_case_that_is_clean_now_exits_with_0(place: Place) -> None:
    place.harness("fuzz", "suites", "--cases", "10", *ON, "--oracle", "write-overlap", "--json", "r.json")
    text = (place.folder / "r.json").read_text(encoding="utf-8")
    place.write("fixed.json", text.replace("suites/norm.py:overlapping", "suites/norm.py:faultless"))
    said = place.harness("replay", "fixed.json", *ENGINE)
    assert (said.status, " is clean: faultless T=3 D=1 G=1 fp32" in said.out) == (0, True)


def test_one_finding_of_a_report_can_be_chosen_by_number_or_id(place: Place) -> None:
    place.harness("fuzz", "suites", "--cases", "10", *ON, "--oracle", "write-overlap", "--json", "r.json")
    report = json.loads((place.folder / "r.json").read_text(encoding="utf-8"))
    digest = report["findings"][0]["id"]
    for chosen in ("1", digest):
        assert place.harness("replay", "r.json", "--finding", chosen, *ENGINE).status == 1
    said = place.harness("replay", "r.json", "--finding", "2", *ENGINE)
    assert (said.status, said.err.startswith("harness: unknown finding '2'")) == (2, True)


def test_an_error_of_the_harness_ends_with_2_and_loses_nothing_that_was_found(place: Place) -> None:
    place.write("suites/norm.py", suite_of("dying"))
    said = place.harness("fuzz", "suites", "--cases", "200", "--oracle", "write-overlap", *ON)
    assert (said.status, "1 finding: 1 warning" in said.out, "Traceback" in said.out) == (2, True, False)
    assert "the engine itself is broken" in said.err


@pytest.mark.parametrize("isolation", ["worker", "case"])
def test_a_search_can_be_bounded_in_time_and_cases_kept_apart(place: Place, isolation: str) -> None:
    said = place.harness(
        "fuzz", "suites", "--minutes", "0.05", "--isolation", isolation, *ON, "--oracle", "write-overlap"
    )
    assert (said.status, "1 finding: 1 warning" in said.out) == (1, True)
