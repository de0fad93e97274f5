"""Child processes that compile programs and print what they see as JSON."""

import tempfile
from pathlib import Path
from typing import Any

from tests.engines.torch.children import ROOT, report_of_file


def report_of(program: str, *arguments: str, **environment: str) -> Any:
    """Return the last line that a program in this folder prints, as JSON."""
    with tempfile.TemporaryDirectory(prefix="inductor-") as folder:
        given = {
            "PYTHONPATH": str(ROOT),
            "TORCHDYNAMO_DISABLE": "1",
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
            "TRITON_CACHE_DIR": f"{folder}/triton",
        }
        return report_of_file(Path(__file__).with_name(program), *arguments, environment=given | environment)
