"""`harness region` in a process, and the text and drawing of a region."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from harness.cli import main
from harness.documents import files
from harness.documents.finding import CaseDocument, RegionDocument
from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.findings.region.record import load
from harness.model.case import Case
from harness.model.region import SMS, Axis, AxisKind, Ended, Point, Region
from harness.model.verdict import Outcome, Severity, Signature
from harness.reports.region_plot import svg
from harness.reports.region_text import WIDTH, render
from harness.wire import to_json
from tests.cli.command_line import ENGINE, ROOT, Finished
from tests.cli.fake_engine import suite_of
from tests.search.fakes import DEVICE, KERNEL, STORE, with_dims

ID = "7f3a09c1"


class ProjectWithFinding:
    """A folder with a suite, and a stored finding of one of its ops."""

    def __init__(self, folder: Path, op: str) -> None:
        self.folder = folder
        self.finding = folder / ".harness" / "findings" / ID
        self.finding.mkdir(parents=True)
        (folder / "norm.py").write_text(suite_of("overlapping", "faultless", "unknown", "slow"), encoding="utf-8")
        case = replace(with_dims(T=3), op=f"norm.py:{op}", absent=())
        self.write(self.finding / "finding.json", case)

    def write(self, path: Path, case: Case) -> None:
        document = {
            "kind": Kind.REGRESSION,
            "schema_version": SCHEMA_VERSION,
            "oracle": "write-overlap",
            "severity": "warning",
            "op": case.op,
            "kernel": KERNEL,
            "place": str(STORE),
            "case": json.loads(to_json(case)),
        }
        path.write_text(json.dumps(document), encoding="utf-8")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "harness.cli", "region", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def region(self, *arguments: str) -> Finished:
        process = self.start(*arguments, *ENGINE)
        out, err = process.communicate(timeout=120)
        return Finished(status=process.returncode, out=out, err=err)


@pytest.mark.slow
class TestTheCommand:
    def test_prints_the_rule_and_a_plot_and_stores_both_with_the_finding(self, tmp_path: Path) -> None:
        project = ProjectWithFinding(tmp_path, "overlapping")
        done = project.region(ID, "--points", "120", "--axes", "T,D")
        lines = done.out.splitlines()
        first = f"write-overlap: {KERNEL} layernorm.py:431 fails when T > 2: true of"
        assert (done.status, lines[0], lines[-1]) == (0, first, f"kept in .harness/findings/{ID}/region.json")
        kept = load(project.finding)
        assert kept
        assert (str(kept.rule), kept.plane) == ("fails when T > 2", ("D", "T"))
        assert {point.outcome is Outcome.FAIL for point in kept.points if point.sizes["T"] > 2} == {True}

    def test_writes_the_region_of_any_other_file_next_to_it(self, tmp_path: Path) -> None:
        project = ProjectWithFinding(tmp_path, "overlapping")
        project.write(tmp_path / "one.json", replace(with_dims(T=4), op="norm.py:overlapping", absent=()))
        done = project.region("one.json", "--points", "30")
        (kept,) = tmp_path.glob("*.region.json")
        assert (done.status, done.out.splitlines()[-1]) == (0, f"kept in {kept.name}")
        assert files.read(kept, RegionDocument).region.case.dims["T"] == 4

    @pytest.mark.parametrize(
        ("op", "status", "sentence"),
        [("faultless", 1, "does not show"), ("unknown", 3, "the engine cannot execute tt.histogram")],
    )
    def test_ends_with_a_reason_if_the_failure_does_not_show(
        self, tmp_path: Path, op: str, status: int, sentence: str
    ) -> None:
        done = ProjectWithFinding(tmp_path, op).region(ID)
        assert (done.status, sentence in done.out.replace("\n", " ")) == (status, True)

    @pytest.mark.nightly
    def test_stores_the_map_so_far_when_interrupted(self, tmp_path: Path) -> None:
        project = ProjectWithFinding(tmp_path, "slow")
        process = project.start(ID, *ENGINE, "--points", "2000")
        assert process.stderr
        process.stderr.readline()  # it has begun
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert "Traceback" not in err
        assert (process.returncode, "The map was interrupted after" in out) == (0, True)
        kept = load(project.finding)
        assert kept
        assert kept.stop_reason is Ended.INTERRUPTED


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((ID, "--axes", "T,X"), "unknown axis 'X': known: D, G, SM, T"),
        ((ID, "--axes", "T"), "--axes T: it takes two different axes, such as T,SM"),
        ((ID, "--axes", "T,T"), "--axes T,T: it takes two different axes, such as T,SM"),
        (("0badcafe",), "unknown finding '0badcafe'"),
        (("case.json",), "the file holds a bare case: a region is that of a failure, so name a finding"),
    ],
)
def test_wrong_input_is_a_usage_error_of_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    line: str,
) -> None:
    ProjectWithFinding(tmp_path, "overlapping")
    files.write(CaseDocument(case=with_dims(T=3)), tmp_path / "case.json")
    monkeypatch.chdir(tmp_path)
    assert main(["region", *arguments]) == 2
    done = capsys.readouterr()
    assert (done.out, len(done.err.splitlines())) == ("", 1)
    assert done.err.startswith(f"harness: {line}")


SIZELESS = """
from harness.suite import op, tensor


@op(dims={}, inputs={"x": tensor(64, grad=False)})
def doubled(x):
    return x + x


@doubled.reference
def twice(x):
    return x + x
"""


def test_an_op_without_dims_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = ProjectWithFinding(tmp_path, "overlapping")
    (tmp_path / "sizeless.py").write_text(SIZELESS, encoding="utf-8")
    project.write(tmp_path / "one.json", replace(with_dims(), op="sizeless.py:doubled", dims={}, absent=()))
    monkeypatch.chdir(tmp_path)
    assert main(["region", "one.json"]) == 2
    assert capsys.readouterr() == (
        "",
        "harness: sizeless.py:doubled declares no dims: a region is mapped around the sizes of a case, and this one "
        "has none\n",
    )


# --- what is drawn ---------------------------------------------------------------------------------------------------

ROWS, COLUMNS = (1, 2, 31, 32, 2048), (1, 64, 188)


def seen(rows: int, sms: int) -> Outcome:
    if rows == 2048:
        return Outcome.ABSTAIN
    return Outcome.FAIL if rows > 1 < sms else Outcome.PASS


REGION = Region(
    finding=ID,
    signature=Signature(oracle="write-overlap", severity=Severity.WARNING, op="", kernel=KERNEL, place="<&>"),
    case=with_dims(T=2),
    axes=(
        Axis(kind=AxisKind.DIM, name="T", low=1, high=2048),
        Axis(kind=AxisKind.DIM, name="D", low=1, high=1024),
        Axis(kind=AxisKind.SM_COUNT, name=SMS, low=1, high=1024, is_open=True),
    ),
    plane=(SMS, "T"),
    points=tuple(
        Point(sizes={**with_dims(T=rows).dims, SMS: sms}, outcome=seen(rows, sms))
        for rows in ROWS
        for sms in COLUMNS
        if (rows, sms) != (31, 64)
    ),
    rule=None,
    seconds=12.3,
    stop_reason=Ended.COMPLETE,
)

PLOT = """\
     T
  2048   ?    ?    ?
    32   .    #    #
    31   .         #
     2   .    #   [#]
     1   .    .    .
         1   64  188  SMs
"""


def test_the_plot_is_complete_without_colour() -> None:
    assert DEVICE.sm_count == 188
    assert PLOT in render(REGION).plain


def test_printed_lines_keep_to_eighty_columns() -> None:
    assert [line for line in render(REGION).plain.splitlines() if len(line) > WIDTH] == []


def test_a_colour_terminal_gets_colours() -> None:
    console = Console(force_terminal=True, color_system="standard", width=WIDTH)
    with console.capture() as captured:
        console.print(render(REGION), soft_wrap=True)
    assert "\x1b[" in captured.get()


def test_the_drawing_has_a_labelled_mark_for_each_point() -> None:
    root = ET.fromstring(svg(REGION))  # noqa: S314 -- our own text
    space = "{http://www.w3.org/2000/svg}"
    classes = [element.get("class") for element in root.iter()]
    assert (classes.count("region-fail") - 1, classes.count("region-pass") - 1) == (5, 6)  # one more in the legend
    assert [child.tag for child in root][:2] == [f"{space}title", f"{space}desc"]
    assert root.findtext(f"{space}title") == f"Where write-overlap: {KERNEL} <&> shows"
    assert "T=32, SMs=64: fails" in [element.text for element in root.iter(f"{space}title")]
    assert [element for element in root.iter() if "script" in element.tag] == []


def test_a_failure_that_does_not_show_has_no_drawing() -> None:
    (point,) = [point for point in REGION.points if point.sizes == REGION.start]
    gone = replace(REGION, points=(replace(point, outcome=Outcome.PASS),), stop_reason=Ended.NOT_SHOWN)
    assert (svg(gone), "\n".join(render(gone).plain.splitlines())) == (
        "",
        f"The smallest case does not show write-overlap: {KERNEL} <&>. There\nis no region to map.",
    )
