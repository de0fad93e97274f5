"""A launch is repeated on hardware from the options that its build has: NVIDIA's and AMD's differ."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.engines.comparison.launches import CannotRepeat
from harness.engines.cuda import repeated_launches
from harness.engines.cuda.repeated_launches import HardwareMachine
from harness.engines.triton.triton_seam import HardwareCannotLaunch


def test_a_build_without_amds_options_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Launcher:
        """A launcher that compiles nothing."""

        def __init__(self, arch: int, cache: Path) -> None:
            del arch, cache

        def compiled(self, source: object, options: dict[str, Any], ttir: str, *, ptxas_optimises: bool) -> None:
            del source, ttir, ptxas_optimises
            raise HardwareCannotLaunch(str(options))

    monkeypatch.setattr(repeated_launches, "HardwareLauncher", Launcher)
    request: Any = SimpleNamespace(
        metadata=SimpleNamespace(num_warps=4, num_stages=2, enable_fp_fusion=True), source=None, ttir=""
    )
    machine = HardwareMachine("a GPU", 90, tmp_path)
    with pytest.raises(CannotRepeat, match="'num_warps': 4, 'num_stages': 2, 'enable_fp_fusion': True"):
        machine.repeat(request, {}, None)
