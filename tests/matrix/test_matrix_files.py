"""The files of a matrix: CSV, the page with heat maps, and targets that are only compiled for."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.documents.build_matrix import BuildMatrix
from harness.documents.files import read
from harness.matrix.cells import Cell, cells_of
from tests.cli.command_line import ROOT, Project

SUITE = str(ROOT / "tests/matrix/matrix_suite.py")
FILES = ("--json", "matrix.json", "--csv", "matrix.csv", "--html", "matrix.html")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with all files of a matrix for a small GPU and one of AMD."""
    made = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(made / "cache"))
        done = Project(made).harness("matrix", SUITE, "--device", "rtx-5090,mi300x", *FILES)
        assert done.status == 0, done.err
        yield made


def cells(folder: Path) -> tuple[Cell, ...]:
    return tuple(cells_of(read(folder / "matrix.json", BuildMatrix)))


def test_csv_has_a_line_for_each_cell(folder: Path) -> None:
    with (folder / "matrix.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    found = [(line["device"], line["config"], line["fits"], int(line["shared bytes"])) for line in lines]
    expected = [
        (cell.device, cell.build.config, "yes" if cell.fits else "no", cell.facts.shared_bytes)
        for cell in cells(folder)
    ]
    assert sorted(found) == sorted(expected)


def test_the_page_loads_nothing_and_has_every_kernel_and_device(folder: Path) -> None:
    page = (folder / "matrix.html").read_text(encoding="utf-8")
    assert re.findall(r"<script|<link|<img|src=|href=|url\(|http", page) == []
    for text in (
        "product_kernel",
        "copy_kernel",
        "<th>rtx-5090</th>",
        "<th>mi300x</th>",
        ">1/4</td>",
        ">shared memory</td>",
    ):
        assert text in page, text


def test_an_amd_gpu_is_judged_by_its_lds(folder: Path) -> None:
    found = {
        str(cell.build.constants["B"]): cell
        for cell in cells(folder)
        if cell.device == "mi300x" and cell.kernel.kernel == "product_kernel"
    }
    assert {size for size, cell in found.items() if cell.fits} == {"32", "64"}
    assert found["128"].shortages[0].seen == "needs 131072 bytes of shared memory, where mi300x has 65536"
    assert found["32"].facts.registers_per_thread > 0
    assert found["32"].facts.threads == 256
