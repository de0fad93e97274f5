"""Suites as pytest tests, in the repository of a library and in a pytest process of their own."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from harness import catalogue
from harness.documents.chunk import ShardReport
from harness.documents.files import dumps
from harness.documents.files import read as loaded
from harness.documents.finding import CaseDocument
from harness.findings.report_merging import merge_documents
from harness.model.case import Case, DType
from tests import plugin
from tests.cli.command_line import Project
from tests.cli.fake_engine import suite_of
from tests.workers.setting import MARK, Fifo, processes_marked

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = """
import sys

def pytest_sessionfinish():
    assert not {"torch", "triton"} & set(sys.modules), "the parent process imports neither"
"""
INTERRUPTED_WHILE_DRAWING = """
import gc
import signal
import sys

def interrupt(phase, info):
    frame = sys._getframe()
    while frame and (frame.f_code.co_name != "draw" or "hypothesis" not in frame.f_code.co_filename):
        frame = frame.f_back
    if frame and interrupt in gc.callbacks:
        gc.callbacks.remove(interrupt)
        signal.raise_signal(signal.SIGTERM)

gc.callbacks.append(interrupt)
gc.set_threshold(50)
"""
STUCK = """
import ctypes
import os

def test_stuck():
    with open(os.environ["STUBBORN_FIFO"], "w") as fifo:
        fifo.write("stuck\\n")
    ctypes.PyDLL(None).sleep(600)
"""
CASE = Case(
    op="suites/norm.py:overlapping",
    dims={"T": 3, "D": 1, "G": 1},
    dtype=DType.FP32,
    device=catalogue.find("rtx-pro-6000"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    status: int
    out: str

    @property
    def counts(self) -> str:
        """The last line without the time: `2 failed, 1 passed`."""
        return self.out.strip().splitlines()[-1].strip("= ").rpartition(" in ")[0]


class Repository:
    """A folder, and the pytest to run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []
        self.write("conftest.py", FORBIDDEN)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def start(self, *arguments: str, seed: int | None = 1, keeps_cache: bool = False) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", *plugin.arguments(), "--strict-markers"),
                *(() if keeps_cache else ("-p", "no:cacheprovider")),
                *("--harness-engine", "tests.cli.fake_engine:FakeEngine", "--harness-cases", "6"),
                *(() if seed is None else ("--harness-seed", str(seed))),
                *arguments,
            ],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "PYTEST_ADDOPTS": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        """End what a test that failed has left."""
        for process in self._started:
            process.kill()
            process.communicate()

    def pytest(self, *arguments: str, seed: int | None = 1, keeps_cache: bool = False) -> Finished:
        run = self.start(*arguments, seed=seed, keeps_cache=keeps_cache)
        out, _ = run.communicate(timeout=120)
        return Finished(status=run.returncode, out=out)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    repository = Repository(tmp_path)
    repository.write("suites/norm.py", suite_of("overlapping", "faultless"))
    yield repository
    repository.close()


def test_each_op_is_a_test_on_each_device(repository: Repository) -> None:
    done = repository.pytest("suites", "--collect-only", "-q")
    assert done.out.splitlines()[:8] == [
        f"suites/norm.py::{op}[{device}]"
        for device in ("h200", "b200", "rtx-pro-6000", "a100")
        for op in ("overlapping", "faultless")
    ]


@pytest.mark.parametrize(
    ("expression", "devices"),
    [
        ("blackwell", {"b200", "rtx-pro-6000"}),
        pytest.param("sm_120", {"rtx-pro-6000"}, marks=pytest.mark.nightly),
        pytest.param("rtx_pro_6000", {"rtx-pro-6000"}, marks=pytest.mark.nightly),
        ("rtx_5090", {"rtx-5090"}),
        pytest.param("ada", {"l4", "l40s", "rtx-4090"}, marks=pytest.mark.nightly),
        ("hopper or ampere", {"h200", "a100"}),
        ("not blackwell", {"a100", "h200"}),
    ],
)
def test_marks_select_devices(repository: Repository, expression: str, devices: set[str]) -> None:
    done = repository.pytest("suites", "--collect-only", "-q", "-m", expression)
    listed = {line.rpartition("[")[2].rstrip("]") for line in done.out.splitlines() if "::faultless[" in line}
    assert listed == devices


def test_a_finding_fails_its_test_and_is_shown_as_printed(repository: Repository) -> None:
    done = repository.pytest("suites", "-m", "sm_120")
    assert (done.status, done.counts) == (1, "1 failed, 1 passed, 6 deselected")
    assert "WARNING  write-overlap  layer_norm_bwd_kernel  in overlapping " in done.out
    assert "  smallest case  overlapping  T=3 D=1 G=1  fp32\n" in done.out
    assert "--harness-seed 1" in done.out
    assert "Traceback" not in done.out


def test_it_works_with_several_processes(repository: Repository) -> None:
    done = repository.pytest("suites", "-m", "blackwell", "-n", "2")
    assert (done.status, done.counts) == (1, "2 failed, 2 passed")
    assert "\non tests.cli.fake_engine:FakeEngine: 4 tests, 24 cases\n" in done.out


@pytest.mark.nightly
def test_several_processes_draw_from_the_printed_seed(repository: Repository) -> None:
    done = repository.pytest("suites", "-m", "blackwell", "-n", "2", "-rP", seed=None)
    printed = re.search(r"--harness-seed (\d+)", done.out)
    assert printed is not None
    assert set(re.findall(r", seed (\d+)\)", done.out)) == {printed[1]}


def test_the_summary_counts_cases_that_could_not_be_checked(repository: Repository) -> None:
    repository.write("suites/norm.py", suite_of("overlapping", "unknown"))
    done = repository.pytest("suites", "-m", "sm_120")
    assert "\non tests.cli.fake_engine:FakeEngine: 2 tests, 12 cases\n  6 not checked: " in done.out


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.nightly)])
def test_a_run_that_is_ended_has_stored_what_it_saw(repository: Repository, number: signal.Signals) -> None:
    repository.write("suites/slow.py", suite_of("slow"))
    process = repository.start("suites/slow.py", "--harness-cases", "5000")
    findings = repository.folder / ".harness" / "findings"
    deadline = time.monotonic() + 60
    while not list(findings.glob("*/finding.json")) and time.monotonic() < deadline:
        assert process.poll() is None
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert ("KeyboardInterrupt" in out) == (number == signal.SIGTERM)
    assert len(list(findings.glob("*/finding.json"))) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.nightly)])
def test_no_worker_of_xdist_outlives_its_controller(
    repository: Repository, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo, mark = Fifo(repository.folder / "fifo"), str(repository.folder)
    monkeypatch.setenv("STUBBORN_FIFO", str(repository.folder / "fifo"))
    monkeypatch.setenv(MARK, mark)
    repository.write("suites/stubborn.py", suite_of("stubborn"))
    repository.write("suites/test_native.py", STUCK)
    process = repository.start(
        "suites/stubborn.py", "suites/test_native.py", "-k", "rtx-pro-6000 or stuck", "-n", "2", "--dist", "loadfile"
    )
    seen = fifo.read()
    while sorted(seen.split()) != ["stubborn", "stuck"]:
        seen += fifo.read()
    marked = [other for other in processes_marked(mark) if other.pid != os.getpid()]
    process.send_signal(number)
    process.communicate(timeout=5)
    _, alive = psutil.wait_procs(marked, timeout=5)
    assert (len(marked) >= 6, alive) == (True, [])
    fifo.close()


def test_an_interrupt_that_python_drops_ends_the_run(repository: Repository) -> None:
    repository.write("conftest.py", INTERRUPTED_WHILE_DRAWING)
    repository.write("suites/slow.py", suite_of("slow"))
    done = repository.pytest("suites/slow.py", "--harness-cases", "200", "-s")
    assert (done.status, "KeyboardInterrupt" in done.out) == (2, True)


def test_warnings_are_pytest_warnings_if_only_errors_count(repository: Repository) -> None:
    done = repository.pytest("suites", "-m", "sm_120", "--harness-fail-on", "error")
    assert (done.status, done.counts) == (0, "2 passed, 6 deselected, 1 warning")
    assert "FindingWarning: write-overlap: layer_norm_bwd_kernel layernorm.py:431" in done.out


def test_a_test_that_checks_nothing_fails(repository: Repository) -> None:
    repository.write("suites/norm.py", suite_of("unknown"))
    done = repository.pytest("suites", "-m", "sm_120")
    assert (done.status, done.counts) == (1, "1 failed, 3 deselected")
    assert "nothing could be checked: this says nothing about the kernels" in done.out
    assert "the engine cannot execute tt.histogram" in done.out


def test_a_library_that_is_not_installed_fails(repository: Repository) -> None:
    repository.write("suites/norm.py", suite_of("faultless", options=', requires=("no-such-library",)'))
    done = repository.pytest("suites", "-m", "sm_120")
    assert (done.status, done.counts) == (1, "1 failed, 3 deselected")
    assert "no-such-library, which is not installed: add --harness-with and its folder or wheel" in done.out
    assert "Traceback" not in done.out


def test_a_suite_that_workers_cannot_load_fails_alone(repository: Repository) -> None:
    text = suite_of("faultless").replace('raise AssertionError("no test runs this")', "import no_such_kernels", 1)
    repository.write("suites/broken.py", text)
    done = repository.pytest("suites", "-m", "sm_120")
    assert (done.status, done.counts) == (1, "2 failed, 1 passed, 9 deselected")
    assert "suites/broken.py imports no_such_kernels, which is not installed: add --harness-with and" in done.out
    assert "WARNING  write-overlap  layer_norm_bwd_kernel  in overlapping " in done.out


def test_suites_of_a_missing_library_are_skipped_if_others_run(repository: Repository) -> None:
    repository.write("suites/other.py", suite_of("faultless", options=', requires=("no-such-library",)'))
    done = repository.pytest("suites", "-m", "sm_120")
    assert (done.status, done.counts) == (1, "1 failed, 1 passed, 1 skipped, 9 deselected")
    assert "skipped: 1 test: no-such-library is not installed: add --harness-with and its folder or wheel" in done.out
    done = repository.pytest("suites", "-m", "sm_120", "-k", "other")
    assert (done.status, done.counts) == (1, "1 failed, 11 deselected")


def test_json_files_of_other_programs_are_not_collected(repository: Repository) -> None:
    repository.write("suites/regressions/users.json", '{"schema_version": 1, "kind": "users", "case": "login"}')
    repository.write("suites/regressions/empty.json", "{}")
    done = repository.pytest("--collect-only", "-q", "suites/regressions")
    assert (done.status, "no tests collected" in done.out) == (5, True)
    named = repository.pytest("suites/regressions/empty.json")
    assert "not a document of the harness: expected an object whose `kind` is campaign" in named.out


def test_tests_of_others_stay_where_they_are(repository: Repository) -> None:
    for name in ("a/test_first.py", "suites/test_second.py", "z/test_third.py"):
        repository.write(name, "def test_passes():\n    pass\n")
    repository.write("suites/regressions/overlap.json", dumps(CaseDocument(case=CASE)))
    done = repository.pytest("--collect-only", "-q", "-m", "sm_120 or not sm_80 and not sm_90 and not sm_100")
    files = [line.partition("::")[0] for line in done.out.splitlines() if "::" in line]
    assert list(dict.fromkeys(files)) == [
        "a/test_first.py",
        "suites/regressions/overlap.json",
        "suites/norm.py",
        "suites/test_second.py",
        "z/test_third.py",
    ]


def test_regressions_come_first(repository: Repository) -> None:
    clean = replace(CASE, op="suites/norm.py:faultless")
    repository.write("suites/regressions/overlap.json", dumps(CaseDocument(case=CASE)))
    repository.write("suites/regressions/clean.json", dumps(CaseDocument(case=clean)))
    done = repository.pytest("suites", "-m", "sm_120", "-v")
    ran = [line.split()[0] for line in done.out.splitlines() if "::" in line and "%]" in line]
    assert ran == [
        f"suites/regressions/clean.json::faultless[{clean.digest}]",
        f"suites/regressions/overlap.json::overlapping[{CASE.digest}]",
        "suites/norm.py::overlapping[rtx-pro-6000]",
        "suites/norm.py::faultless[rtx-pro-6000]",
    ]
    assert (done.status, done.counts) == (1, "2 failed, 2 passed, 6 deselected")


def test_printed_commands_replay_what_a_regression_shows(repository: Repository) -> None:
    repository.write("suites/regressions/overlap.json", dumps(CaseDocument(case=CASE)))
    done = repository.pytest("suites/regressions")
    commands = [
        shlex.split(command) for command in re.findall(r"^  replay +harness (replay .+)$", done.out, re.MULTILINE)
    ]
    assert commands
    for command in commands:
        replayed = Project(repository.folder).harness(*command)
        assert (replayed.status, replayed.out.splitlines()[-1:]) == (1, [f"{command[1]} fails again"]), replayed.err


@pytest.mark.nightly
def test_a_kept_regression_fails_until_it_is_fixed(repository: Repository) -> None:
    repository.pytest("suites", "-m", "sm_120")
    (stored,) = (repository.folder / ".harness" / "findings").iterdir()
    finding = json.loads((stored / "finding.json").read_text(encoding="utf-8"))
    repository.write("suites/regressions/overlap.json", json.dumps(finding))
    assert repository.pytest("suites/regressions").counts == "1 failed"
    repaired = {**finding, "case": {**finding["case"], "op": "suites/norm.py:faultless"}}
    repository.write("suites/regressions/overlap.json", json.dumps(repaired))
    assert repository.pytest("suites/regressions").counts == "1 passed"


@pytest.mark.nightly
def test_other_warnings_of_a_mended_regression_are_pytest_warnings(repository: Repository) -> None:
    repository.pytest("suites", "-m", "sm_120")
    (stored,) = (repository.folder / ".harness" / "findings").iterdir()
    finding = json.loads((stored / "finding.json").read_text(encoding="utf-8"))
    repository.write("suites/regressions/bounds.json", json.dumps(finding | {"oracle": "bounds", "severity": "error"}))
    done = repository.pytest("suites/regressions")
    assert (done.status, done.counts) == (0, "1 passed, 1 warning")
    assert "FindingWarning: write-overlap: layer_norm_bwd_kernel layernorm.py:431" in done.out


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("suites/broken.py", "from harness.suite import op\n1 / 0\n", "broken.py:2 fails on import: ZeroDivisionError"),
        ("suites/empty.py", "from harness.suite import op\n", "declares no op"),
        (
            "suites/regressions/damaged.json",
            '{"kind": "finding", "schema_version": 2, "case"',
            "not readable as JSON",
        ),
    ],
)
def test_a_broken_file_is_an_error_that_names_it(repository: Repository, file: str, text: str, message: str) -> None:
    repository.write(file, text)
    done = repository.pytest("suites")
    assert done.status == 2
    assert message in done.out
    assert "Traceback" not in done.out


def test_a_suite_that_skips_itself_is_skipped_with_its_reason(repository: Repository) -> None:
    top = "import pytest\npytest.importorskip('no_such_kernels')\n"
    repository.write("suites/absent.py", top + suite_of("faultless"))
    done = repository.pytest("suites", "-m", "sm_120", "-rs", "--deselect", "suites/norm.py::overlapping[rtx-pro-6000]")
    assert "could not import 'no_such_kernels'" in done.out
    assert (done.status, done.counts) == (0, "1 passed, 1 skipped, 7 deselected")


def test_an_unknown_device_is_a_usage_error(repository: Repository) -> None:
    done = repository.pytest("suites", "--harness-device", "h20")
    assert (done.status, "unknown device 'h20': did you mean h200" in done.out) == (4, True)


def test_other_python_files_are_left_alone(repository: Repository) -> None:
    repository.write("suites/test_own.py", "def test_of_ones_own():\n    pass\n")
    repository.write("suites/shapes.py", "SIZES = (1, 2)\n")
    repository.write("elsewhere.py", suite_of("faultless"))
    done = repository.pytest(".", "-m", "not ampere and not hopper and not blackwell", "-v")
    assert (done.status, done.counts) == (0, "1 passed, 8 deselected")


def test_a_suite_outside_the_folder_is_collected_by_name(repository: Repository) -> None:
    repository.write("elsewhere.py", suite_of("faultless"))
    done = repository.pytest("elsewhere.py", "-m", "sm_120")
    assert (done.status, done.counts) == (0, "1 passed, 3 deselected")


@pytest.mark.nightly
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_shards_share_the_tests_and_their_reports_merge(repository: Repository, workers: tuple[str, ...]) -> None:
    for number in (1, 2, 3):
        given = ("--harness-shard", f"{number}/3", "--harness-json", f"{number}.json")
        done = repository.pytest("suites", "-m", "blackwell", *given, *workers)
        assert done.status in {0, 1}
    files = [repository.folder / f"{number}.json" for number in (3, 1, 2)]
    merged = merge_documents([loaded(path, ShardReport) for path in files])
    assert (merged.cases, merged.missing, len(merged.findings)) == (24, (), 1)
    assert not list(repository.folder.glob("*.parts"))


def test_shards_need_one_seed(repository: Repository) -> None:
    done = repository.pytest("suites", "--harness-shard", "1/2", seed=None)
    assert done.status == 4
    assert "the shards of one run need one seed: add --harness-seed N" in done.out
