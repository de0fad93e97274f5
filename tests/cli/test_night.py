"""`harness night`: a night goes on where the last one ended, whatever ended that, and on several machines."""

import re
import subprocess
from pathlib import Path
from random import Random

import psutil
import pytest

from harness.night import night_memory
from harness.night.bug_history import BugState, NightHistory, history_of
from harness.night.night_memory import NightRun
from tests.cli.command_line import Finished, Project
from tests.cli.fake_engine import suite_of
from tests.cli.small_disk import FULL, fill

SETTINGS = """
device = "rtx-pro-6000,b200"

[night]
block = 8

[[night.search]]
name = "one"
engine = "tests.cli.fake_engine:FakeEngine"
oracle = ["write-overlap"]
"""
SEEN = re.compile(r"^seen: \w+, (.*) \(one\)$", re.MULTILINE)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.write("pyproject.toml", "")
    project.write("harness.toml", SETTINGS)
    project.write("suites/norm.py", suite_of("overlapping", "faultless", "unknown"))
    return project


def history(project: Project, folder: str = "nights") -> NightHistory:
    return history_of(night_memory.read(project.folder / folder))


def blocks(run: NightRun) -> list[tuple[str, str, int]]:
    return [(chunk.op.rpartition(":")[2], chunk.device, chunk.block) for chunk in run.tried]


def night(project: Project, *options: str) -> Finished:
    return project.process("night", *options)


def test_a_night_goes_on_where_the_last_one_ended(project: Project) -> None:
    first = night(project, "--cases", "24", "--night", "1")
    assert (first.status, first.out.splitlines()[0]) == (0, "night 1: 1 new"), first.out + first.err
    assert "no night before; 3 ops on 2 devices: 6 of 6 new or changed; 0 open bugs" in first.err
    second = night(project, "--cases", "40", "--night", "2")
    assert (second.status, second.out.splitlines()[0]) == (0, "night 2: nothing new; 1 still there"), (
        second.out + second.err
    )
    one, two = history(project).memory.runs
    device, other = "rtx-pro-6000", "b200"
    assert blocks(one) == [("overlapping", device, 0), ("faultless", device, 0), ("unknown", device, 0)]
    assert blocks(two) == [
        *((op, other, 0) for op in ("overlapping", "faultless", "unknown")),
        ("overlapping", device, 1),
        ("faultless", device, 1),
    ]
    (bug,) = history(project).bugs
    assert (bug.state, bug.first, bug.last, bug.nights_looked) == (BugState.STILL_THERE, "1", "2", 2)
    assert two.tried[3].replayed == (bug.id,)


def test_a_night_of_minutes_ends_in_its_time(project: Project) -> None:
    project.write("harness.toml", SETTINGS.replace("[night]", '[night]\nfail-on = "warning"'))
    ended = night(project, "--minutes", "0.4")
    (run,) = history(project).memory.runs
    assert ended.status == 1
    assert run.ended is not None
    assert run.ended.seconds < 30


def killed(process: subprocess.Popen[str]) -> str:
    """Kill a night, whose chunks then end by themselves, and return what it had printed on the error stream."""
    chunks = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    _, err = process.communicate()
    _, alive = psutil.wait_procs(chunks, timeout=10)
    assert alive == []
    return err


def logged_lines(project: Project, known: set[Path]) -> int:
    """Return how many lines the log of the night that runs has."""
    (log,) = {*(project.folder / "nights" / "log").glob("*.jsonl")} - known or {None}
    return log.read_bytes().count(b"\n") if log else 0


@pytest.mark.nightly
def test_what_was_seen_survives_kills_at_any_moment(project: Project) -> None:
    seen = set[str]()
    draw = Random(5)  # noqa: S311 - the moments of the kills
    for number in range(10):
        known = {*(project.folder / "nights" / "log").glob("*.jsonl")}
        process = project.start("night", "--cases", "400", "--night", str(number))
        wanted = draw.randrange(5)
        while logged_lines(project, known) < wanted:
            assert process.poll() is None
        seen |= {*SEEN.findall(killed(process))}
    after = history(project)
    assert {str(bug.signature) for bug in after.bugs} >= seen
    assert seen
    last = night(project, "--cases", "8", "--night", "last")
    assert last.status == 0, last.out + last.err
    tried = [chunk for run in history(project).memory.runs for chunk in run.tried]
    assert len({(chunk.op, chunk.device, chunk.block) for chunk in tried}) == len(tried)  # none ran twice


def test_the_parts_of_a_night_are_the_night_of_one_machine(project: Project) -> None:
    project.write("harness.toml", SETTINGS.replace(",b200", ""))
    for shard in ("1/2", "2/2"):
        night(project, "--cases", "32", "--night", "7", "--shard", shard, "--memory", f"part-{shard[0]}")
    night(project, "--cases", "32", "--night", "7", "--memory", "alone")
    night_memory.merge(project.folder / "both", [project.folder / "part-1", project.folder / "part-2"])
    both, alone = history(project, "both"), history(project, "alone")
    assert summed_up(both) == summed_up(alone)
    assert (len(both.nights[0].runs), both.nights[0].missing) == (2, ())
    assert history(project, "part-1").nights[0].missing == ("2/2",)
    lost = project.harness("morning", "part-1")
    assert (lost.status, "; not here: part 2/2" in lost.out.splitlines()[0]) == (2, True), lost.out
    assert project.harness("morning", "both").status == 0


def summed_up(known: NightHistory) -> tuple[object, ...]:
    bugs = [(bug.id, bug.state, bug.finding and bug.finding.case) for bug in known.bugs]
    return bugs, {unit: (row.cases, row.next_block) for unit, row in known.units.items()}, known.latest


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ("[night]\nminute = 3\n", "unknown setting 'minute': did you mean minutes?"),
        ("[night]\nminutes = 'x'\n", "minutes = 'x': write a number above 0"),
        ("[night]\nseed = 'x'\n", "seed = 'x': write a whole number"),
        ("[night]\nminutes = 1\ncases = 2\n", "a night has one of them"),
        ('[night]\nfail-on = "nw"\n', "fail-on: unknown choice 'nw': did you mean new"),
        ("[[night.search]]\nsuite = ['x']\n", "unknown setting 'suite': did you mean suites"),
        ("[[night.search]]\nsuites = ['none']\n", "none"),
        ("[[night.search]]\n[[night.search]]\n", "two searches are called 'suites'"),
        ("[night\n", "harness.toml"),
        ("[[night.search]]\nsuites = ['fla:norm']\n", "fla-core, which is not installed"),
    ],
)
def test_a_wrong_setting_is_an_error_of_one_line(project: Project, settings: str, line: str) -> None:
    project.write("harness.toml", settings)
    done = project.harness("night")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert line in done.err


def test_a_full_disk_loses_nothing_that_was_printed(project: Project, small_disk: Path) -> None:
    memory = small_disk / "nights"
    process = project.start("night", "--cases", "96", "--memory", str(memory))
    assert process.stderr is not None
    text = process.stderr.readline() + process.stderr.readline()  # the plan, and the first failure
    fill(small_disk / "filling")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, FULL in err.splitlines()[-1]) == (2, True), out + err
    assert {*SEEN.findall(text + err)} <= {str(bug.signature) for bug in history_of(night_memory.read(memory)).bugs}
    assert SEEN.findall(text + err)
    (small_disk / "filling").unlink()
    assert night(project, "--cases", "16", "--memory", str(memory)).status == 0
