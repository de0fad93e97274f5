"""However a search ends, every failure that it printed is in the store, and nothing else is left."""

import json
import re
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.cli.command_line import ON, Project
from tests.cli.fake_engine import suite_of
from tests.cli.small_disk import FULL, fill

SEEN = re.compile(r"^seen: \w+, (.*)$", re.MULTILINE)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return with_suite(Project(tmp_path))


def with_suite(project: Project) -> Project:
    project.write("suites/norm.py", suite_of("slow", "faultless"))
    return project


def searching(project: Project, *, until: str = "seen: ") -> subprocess.Popen[str]:
    """Return a search of which the error stream was read up to a line that begins like this."""
    process = project.start("fuzz", "suites", "--cases", "5000", "--oracle", "write-overlap", *ON)
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith(until):
        assert line, "the search has ended"
    return process


def stored(folder: Path) -> set[str]:
    documents = (folder / ".harness" / "findings").glob("*/finding.json")
    return {json.loads(path.read_text(encoding="utf-8"))["signature"] for path in documents}


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("limit", "number", "statuses", "why"),
    [
        (("--minutes", "4s"), None, {0, 3}, "the time is over"),  # 3 if an op had no turn yet
        ((), signal.SIGTERM, {130}, "interrupted"),
        ((), signal.SIGINT, {130}, "interrupted"),
    ],
)
def test_a_survey_that_ends_early_prints_what_it_saw(
    project: Project, limit: tuple[str, ...], number: signal.Signals | None, statuses: set[int], why: str
) -> None:
    process = project.start("fuzz", "suites", "--survey", "coverage", "--cases", "400", *limit, *ON)
    assert process.stderr is not None
    if number is not None:
        assert " of 400 cases, last " in process.stderr.readline()
        process.send_signal(number)
    got, out, err = ended(process)
    assert (got in statuses, out.startswith(f"{why}: not all cases were run\n")) == (True, True), err
    counts = re.search(r"^(\d+) launch(es)? of \d kernels? in \d+ cases?: ", out, re.MULTILINE)
    assert counts, out
    assert number is None or int(counts[1])  # a loaded machine may need all of the time to begin


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_a_search_as_ctrl_c_does(project: Project, number: signal.Signals) -> None:
    process = searching(project)
    process.send_signal(number)
    status, out, _ = ended(process)
    assert (status, "interrupted after" in out, "1 finding: 1 warning" in out) == (1, True, True)
    assert stored(project.folder) == {"write-overlap: layer_norm_bwd_kernel layernorm.py:431"}


def test_a_second_ctrl_c_does_not_suppress_the_summary(project: Project) -> None:
    process = searching(project)
    for _ in range(50):
        process.send_signal(signal.SIGINT)
    status, out, err = ended(process)
    assert (status, "1 finding: 1 warning" in out, "Traceback" in err) == (1, True, False)


def test_what_a_killed_search_had_seen_is_listed(project: Project) -> None:
    process = searching(project)
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate(timeout=60)
    _, alive = psutil.wait_procs(children, timeout=20)
    listed = project.harness("findings")
    assert ("write-overlap: layer_norm_bwd_kernel" in listed.out, "not tried" in listed.out) == (True, True)
    assert alive == []


def test_the_next_search_removes_what_a_killed_one_left(project: Project) -> None:
    process = searching(project)
    process.kill()
    process.communicate(timeout=60)
    project.harness("fuzz", "suites", "--cases", "4", *ON)
    assert list(project.folder.rglob("pool-*")) == []
    assert list(project.folder.rglob("*.unfinished")) == []


def test_a_deleted_folder_does_not_keep_the_summary_from_being_printed(project: Project) -> None:
    process = searching(project)
    shutil.rmtree(project.folder / ".harness", ignore_errors=True)
    (project.folder / ".harness").write_text("in the way", encoding="utf-8")
    process.send_signal(signal.SIGTERM)
    status, out, err = ended(process)
    assert (status, "1 finding: 1 warning" in out) == (2, True), out + err
    # Either the store or a process for cases meets it first.
    assert err.splitlines()[-1].startswith(("harness: cannot write to ", "harness: cases cannot write their files: "))


def test_a_full_disk_loses_nothing_that_was_printed(small_disk: Path) -> None:
    process = searching(with_suite(Project(small_disk)))
    fill(small_disk / "filling")
    process.send_signal(signal.SIGTERM)
    _, out, err = ended(process)
    assert ("1 finding: 1 warning" in out, "Traceback" in err) == (True, False), out + err
    assert stored(small_disk) == {"write-overlap: layer_norm_bwd_kernel layernorm.py:431"}


def test_a_disk_that_fills_up_is_the_last_line_of_a_search(small_disk: Path) -> None:
    process = searching(with_suite(Project(small_disk)))
    fill(small_disk / "filling")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, "1 finding: 1 warning" in out) == (2, True), out + err
    assert err.splitlines()[-1].endswith(FULL)
