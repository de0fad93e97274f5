"""Child processes that compile programs and print what they see as JSON."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def report_of(program: str, *arguments: str, **environment: str) -> Any:
    """Return the last line that a program in this folder prints, as JSON."""
    with tempfile.TemporaryDirectory(prefix="inductor-") as folder:
        child = subprocess.run(
            [sys.executable, str(Path(__file__).with_name(program)), *arguments],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "TORCHDYNAMO_DISABLE": "1",
                "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
                "TRITON_CACHE_DIR": f"{folder}/triton",
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout.splitlines()[-1])
