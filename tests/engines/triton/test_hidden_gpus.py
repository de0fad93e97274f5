"""Workers of the virtual GPU see no hardware GPU, since CUDA cannot start in a process forked from one with torch."""

import os
import subprocess
import sys

import pytest

PREPARED = """
import os
from harness.engines.virtual.engine import VirtualEngine

VirtualEngine().prepare()
print(os.environ["CUDA_VISIBLE_DEVICES"] == "", flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_the_virtual_engine_hides_hardware_gpus_from_its_processes() -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "0"}
    done = subprocess.run([sys.executable, "-c", PREPARED], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
