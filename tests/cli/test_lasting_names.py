"""One bug keeps its name: in other folders, after a formatter's run, with other lines; and gone means looked for."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import Project

pytestmark = [pytest.mark.slow, pytest.mark.both]

SUITE = """\
from harness.suite import DType, beside, op, tensor, tokens


@op(dims={"T": tokens(64, grows=False)}, inputs={"x": tensor("T", grad=False, contiguous=True)}, dtypes=(DType.FP32,))
def doubled(x):
    return beside(__file__, "kernels/doubled.py").doubled(x)


@doubled.reference
def doubled_reference(x):
    return x + x
"""
KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(X, Y, T, ROWS: tl.constexpr):
    rows = tl.program_id(0) * 8 + tl.arange(0, ROWS)
    values = tl.load(X + rows, mask=rows < T)
    tl.store(Y + rows, values + values, mask=rows < T)


def doubled(x):
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 8),)](x, y, x.numel(), ROWS=16)
    return y
"""
WRAPPED = KERNEL.replace(
    "tl.store(Y + rows, values + values, mask=rows < T)",
    "tl.store(\n        Y + rows,  # overlaps\n        values + values,\n        mask=(rows < T),\n    )",
)
MOVED = KERNEL.replace("@triton.jit\n", "def unused(renamed):\n    return renamed\n\n\n@triton.jit\n", 1)
MENDED = KERNEL.replace("ROWS=16", "ROWS=8")
PLACES = {
    "suites/mine.py": (SUITE, KERNEL),
    "checks/gpu/mine.py": (f"# Notes on this suite.\n{SUITE}", WRAPPED),
    "mine.py": (SUITE.replace('"', "'"), f'"""Kernels."""\n\n\n{KERNEL}'),
    "package/tests/suites/mine.py": (SUITE.replace("{", "{ "), MOVED),
}
SEARCH = ("--cases", "12", "--seed", "3", "--device", "rtx-pro-6000", "--json", "r.json")


def search(project: "Written") -> Any:
    assert project.harness("fuzz", project.suite, *SEARCH).status in {0, 1}
    return json.loads((project.folder / "r.json").read_text(encoding="utf-8"))


class Written(Project):
    """A project with one suite and its kernel."""

    def __init__(self, folder: Path, suite: str, text: str, kernel: str) -> None:
        super().__init__(folder)
        self.suite = suite
        self.write("pyproject.toml", "")
        self.write(suite, text)
        self.write(f"{Path(suite).parent}/kernels/doubled.py", kernel)


def names_in(report: Any) -> list[tuple[str, ...]]:
    return [
        (one["id"], one["signature"], str(one["first_seen"]["case_number"]), str(one["case"]["dims"]))
        for one in report["findings"]
    ]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[Written, Any]:
    """The suite in four places, and the report of a search of each."""
    root = tmp_path_factory.mktemp("places")
    written = [Written(root / str(number), suite, *texts) for number, (suite, texts) in enumerate(PLACES.items())]
    return {project: search(project) for project in written}


@pytest.mark.nightly
def test_ids_draws_and_fingerprints_are_equal_in_four_places(places: dict[Written, Any]) -> None:
    names = [names_in(report) for report in places.values()]
    assert names[0]
    assert all(other == names[0] for other in names[1:])
    assert "double_kernel doubled.py: tl.store(Y + rows, values + values, mask=rows < T)" in names[0][0][1]
    prints = [
        [result["partialFingerprints"] for result in json.loads(done.out)["runs"][0]["results"]]
        for done in (project.harness("report", "r.json", "--sarif", "-") for project in places)
    ]
    assert all(other == prints[0] for other in prints)


@pytest.mark.nightly
def test_the_history_of_one_place_continues_in_another(places: dict[Written, Any]) -> None:
    first, second, *_ = places
    history = str(first.folder / "r.json")
    done = second.harness("report", "r.json", "--history", history, "--markdown", "-")
    assert "0 new, 1 still, 0 gone." in done.out


@pytest.mark.nightly
def test_stored_findings_are_replayed_together_and_gone_ones_pruned(tmp_path: Path) -> None:
    project = Written(tmp_path, "suites/mine.py", SUITE, KERNEL)
    (finding,) = search(project)["findings"]
    lost = project.folder / ".harness" / "findings" / "lost"
    lost.mkdir()
    text = (lost.parent / finding["id"] / "finding.json").read_text(encoding="utf-8")
    (lost / "finding.json").write_text(text.replace("mine.py", "other.py").replace("tl.store", "tl.other"), "utf-8")
    still = project.harness("replay", "--all")
    assert still.status == 1
    assert f"still there  {finding['id']} fails again\n" in still.out
    assert "there is no suite suites/other.py" in still.out
    assert still.out.endswith("2 findings: 1 still there, 1 not tried\n")
    project.write("suites/kernels/doubled.py", MENDED)
    gone = project.harness("findings", "--prune")
    assert (gone.status, gone.out.splitlines()[-1]) == (0, "2 findings: 1 gone, 1 not tried; 1 removed")
    assert [place.name for place in lost.parent.iterdir()] == ["lost"]
    assert project.harness("replay", "--all").status == 3
