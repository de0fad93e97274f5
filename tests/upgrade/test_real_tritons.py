"""`harness upgrade` between the Tritons of both environments, on what the notes of 3.9 call mended or removed."""

from pathlib import Path

import pytest

from harness.documents.files import read
from harness.documents.upgrade_report import Right, UpgradeReport, UpgradeVerdict
from harness.libraries import PYTHON_TAG
from tests.cli.command_line import ROOT, Project

SUITE = str(ROOT / "tests/upgrade/upgraded_suite.py")
OLD, NEW = "3.6.0", "3.9.0"


def install_from_environments(cache: Path) -> set[str]:
    """Put the Tritons of all environments of this repository into the harness's cache, and return their versions."""
    found: set[str] = set()
    for metadata in ROOT.glob(".venv*/lib/python3.*/site-packages/triton-*.dist-info"):
        version = metadata.name.removeprefix("triton-").removesuffix(".dist-info")
        place = cache / "libraries" / f"triton-{version}-{PYTHON_TAG}"
        place.mkdir(parents=True)
        (place / metadata.name).symlink_to(metadata)
        (place / "triton").symlink_to(metadata.with_name("triton"))
        found.add(version)
    return found


@pytest.mark.nightly
@pytest.mark.slow
def test_what_triton_3_9_mends_and_removes_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not {OLD, NEW} <= install_from_environments(tmp_path / "cache"):
        pytest.skip(f"the environments of both Tritons, {OLD} and {NEW}, are not here: make setup setup-3.9")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    project = Project(tmp_path)
    done = project.harness("upgrade", "triton", OLD, NEW, SUITE, "--device", "h200", "--cases", "2", "--json", "u.json")
    report = read(tmp_path / "u.json", UpgradeReport)
    assert {kernel.kernel: kernel.verdict for kernel in report.kernels} == {
        "block_pointer_kernel": UpgradeVerdict.REMOVED,
        "softmax_kernel": UpgradeVerdict.NEW_IS_RIGHT,
        "is_set_kernel": UpgradeVerdict.NEW_IS_RIGHT,
        "tuned_copy_kernel": UpgradeVerdict.SAME_CODE,
    }
    rights = {found.right for kernel in report.kernels for found in kernel.differences}
    assert (done.status, rights) == (1, {Right.NEW})
    removed = [failure.removed for kernel in report.kernels for failure in kernel.failures]
    assert removed == ["triton.language.make_block_ptr"]
