"""Workers of the virtual GPU see no real one: CUDA cannot be started in a process that was forked from torch's."""

import os
import subprocess
import sys

import pytest

PREPARED = """
import os
from harness.virtual.engine import VirtualEngine

VirtualEngine().prepare()
print(os.environ["CUDA_VISIBLE_DEVICES"] == "", flush=True)
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.once
def test_the_virtual_gpu_hides_real_ones_from_its_processes() -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "0"}
    said = subprocess.run([sys.executable, "-c", PREPARED], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout == "True\n"
