"""The file of a worker's running case, when its folder goes away."""

import shutil
from pathlib import Path

import pytest

from harness.workers.folder import PoolFolder


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_whose_folder_is_gone_closes(tmp_path: Path, *, is_replaced: bool) -> None:
    scratch = tmp_path / "scratch"
    folder = PoolFolder(str(scratch))
    case_file = folder.case_file(1)
    shutil.rmtree(scratch)
    if is_replaced:
        scratch.write_text("in the way", encoding="utf-8")
    case_file.close()
    folder.remove()
    assert scratch.is_file() == is_replaced
