"""The bound on the memory of one launch, in a process of its own."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import numpy as np
import psutil

from harness.watched.launch_memory import bounded_memory

share = 2**28 / psutil.virtual_memory().available
try:
    with bounded_memory(share):
        np.ones(2**27)
except MemoryError:
    print("refused")
print(np.ones(2**27).nbytes)
"""


def test_an_allocation_beyond_the_bound_raises_and_the_next_is_free() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"refused\n{2**30}\n"
