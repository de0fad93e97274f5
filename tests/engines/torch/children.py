"""Child processes that emulate a device and print what they see as JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {"TORCHDYNAMO_DISABLE": "1", "FLA_DISABLE_TENSOR_CACHE": "1", "CUDA_VISIBLE_DEVICES": ""}


def report_of(program: str, *arguments: str, paths: tuple[str, ...] = ()) -> Any:
    """Return the last line that a program in this folder prints, as JSON."""
    environment = ENVIRONMENT | {"PYTHONPATH": os.pathsep.join([str(ROOT), *paths])}
    return report_of_file(Path(__file__).with_name(program), *arguments, environment=environment)


def report_of_file(program: Path, *arguments: str, environment: Mapping[str, str]) -> Any:
    """Return the last line that a program prints, as JSON."""
    child = subprocess.run(
        [sys.executable, str(program), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout.splitlines()[-1])
