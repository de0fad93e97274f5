"""The reruns of a case leave its main run as it is, and each other."""

import os
from pathlib import Path

from tests.engines.torch.children import report_of_file

ROOT = Path(__file__).parents[3]


def test_a_rerun_that_raises_neither_hides_the_next_one_nor_keeps_the_launches(tmp_path: Path) -> None:
    program = Path(__file__).with_name("program_of_reruns.py")
    environment = {"PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(tmp_path)}
    assert report_of_file(program, environment=os.environ | environment) == {
        "ending": "Completed",
        "refilled": "Raised",
        "tuned": "Completed",
        "launches": ["total_kernel", "add_up"],
        "is_timed_apart": True,
        "is_restored": True,
    }
