"""A matrix of a small suite: every config on every device, from the cache the second time."""

import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.documents.build_matrix import BuildMatrix
from harness.documents.files import read
from harness.matrix.cells import Cell, cells_of
from harness.matrix.kernel_summaries import KernelSummary, summaries
from harness.reports.matrix_text import lines
from tests.cli.command_line import ROOT, Finished, Project

SUITE = "tests/matrix/matrix_suite.py"
ON = ("--device", "h200,rtx-pro-6000,rtx-5090", "--processes", "2")


class MatrixProject(Project):
    """A folder with a cache of its own; the suite is one of the tests."""

    def matrix(self, *arguments: str) -> Finished:
        return self.harness("matrix", str(ROOT / SUITE), *ON, "--json", "matrix.json", *arguments)

    @property
    def document(self) -> BuildMatrix:
        return read(self.folder / "matrix.json", BuildMatrix)

    @property
    def builds(self) -> list[Path]:
        return list((self.folder / "cache").rglob("builds/*/*.json"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MatrixProject:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return MatrixProject(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixProject]:
    """A project with a whole matrix, which tests only read."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(folder / "cache"))
        made = MatrixProject(folder)
        done = made.matrix()
        assert (done.status, done.err.count("Traceback")) == (0, 0), done.err
        yield made


def product_on(project: MatrixProject, device: str) -> dict[str, Cell]:
    """Return the cells of the autotuned kernel on a device, by the value of B."""
    cells = (cell for cell in cells_of(project.document) if cell.kernel.kernel == "product_kernel")
    return {str(cell.build.constants["B"]): cell for cell in cells if cell.device == device}


def test_every_config_is_there_and_pruned_ones_are_marked(whole: MatrixProject) -> None:
    cells = product_on(whole, "h200")
    assert {size: cell.build.is_kept for size, cell in cells.items()} == {
        "32": True,
        "128": True,
        "256": True,
        "24": True,
        "64": False,
    }


def test_each_device_is_judged_by_its_own_limit(whole: MatrixProject) -> None:
    fitting = {
        device: {size for size, cell in product_on(whole, device).items() if cell.fits}
        for device in ("h200", "rtx-pro-6000")
    }
    assert fitting == {"h200": {"32", "64", "128"}, "rtx-pro-6000": {"32", "64"}}
    assert [lack.place for lack in product_on(whole, "rtx-pro-6000")["128"].shortages] == ["shared memory"]


def test_a_config_that_does_not_compile_shows_message_and_line(whole: MatrixProject) -> None:
    facts = product_on(whole, "h200")["24"].facts
    assert "power of 2" in facts.failure
    source = facts.failure_source
    assert source is not None
    assert "tl.arange(0, B)" in Path(source.file).read_text(encoding="utf-8").splitlines()[source.line - 1]


def test_devices_of_one_architecture_share_their_builds(whole: MatrixProject) -> None:
    document = whole.document
    keys = {
        device: {cell.build.key for cell in cells_of(document) if cell.device == device}
        for device in ("h200", "rtx-5090", "rtx-pro-6000")
    }
    assert keys["rtx-5090"] == keys["rtx-pro-6000"]
    assert keys["h200"] & keys["rtx-5090"] == {""}
    assert len(document.builds) == len(keys["h200"] | keys["rtx-5090"]) - 1 == document.cost.compiled


def test_a_second_matrix_compiles_nothing_and_is_the_same(whole: MatrixProject) -> None:
    before = whole.document
    assert whole.matrix().status == 0
    assert whole.document.cost.compiled == 0
    assert replace(whole.document, cost=before.cost) == before


@pytest.mark.nightly
@pytest.mark.slow
def test_a_killed_matrix_goes_on_where_it_was(project: MatrixProject) -> None:
    process = project.start("matrix", str(ROOT / SUITE), *ON)
    while len(project.builds) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = len(project.builds)
    assert project.matrix().status == 0
    assert 0 < project.document.cost.compiled <= len(project.document.builds) - kept


def test_the_summary_names_what_fits_where(whole: MatrixProject) -> None:
    text = "\n".join(lines(whole.document))
    assert max(map(len, text.splitlines()[:4])) <= 80
    for part in (
        "product_kernel                            5    4   0/3",
        "product_kernel keeps 1 config that cannot run on rtx-pro-6000, rtx-5090",
        "product_kernel keeps 2 configs that cannot run on h200, rtx-pro-6000, rtx-5090",
        "product_kernel drops 1 config that fit h200, rtx-pro-6000, rtx-5090",
        "2 kernels, 6 configs, 3 GPUs: 18 cells, 8 cannot run",
    ):
        assert part in text, text


def product_summary(project: MatrixProject) -> KernelSummary:
    return next(one for one in summaries(project.document) if one.kernel == "product_kernel")


def test_a_config_that_fits_no_device_is_dead(whole: MatrixProject) -> None:
    assert [config.partition(",")[0] for config in product_summary(whole).dead_configs] == ["B: 256", "B: 24"]


def test_the_worst_overrun_is_of_the_largest_tile_on_the_smallest_gpu(whole: MatrixProject) -> None:
    worst = product_summary(whole).worst
    assert worst is not None
    assert (worst.build.constants["B"], worst.shortages[0].limit) == (256, 101_376)


def test_no_launched_kernel_is_nothing_checked(project: MatrixProject) -> None:
    project.write(
        "suite.py",
        (
            "from harness.suite import op, tensor, tokens\n"
            "@op(dims={'T': tokens(8)}, inputs={'x': tensor('T')}, launches=False)\n"
            "def same(x):\n    return x * 1\n"
            "@same.reference\ndef reference(x):\n    return x * 1\n"
        ),
    )
    done = project.harness("matrix", "suite.py", "--device", "h200")
    assert done.status == 3
