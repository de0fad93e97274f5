"""One kernel that a release of Triton miscompiles: what its file states, and what the PTX machine shows of it."""

import os
import tempfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import triton
from packaging.version import Version

from harness import catalogue
from harness.engines.ptx.engine import PtxEngine
from harness.errors import CannotExecute
from harness.model.run import CompiledFlaw

FOLDER = Path(__file__).with_name("kernels")
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("[a-z]*.py")))
ERROR = "error"
"""What a run shows that executed nothing: no release is expected to."""
DEVICES = {80: "a100", 90: "h200", 100: "b200", 120: "rtx-pro-6000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a run shows: `right`, `values`, or the kind of a flaw of compiled code."""

    kind: str
    text: str = ""

    @classmethod
    def read(cls, line: str) -> "Shown":
        kind, _, text = line.partition(": ")
        return cls(kind=kind, text=text)

    @property
    def is_fault(self) -> bool:
        return self.kind not in {"right", ERROR}

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def load(name: str) -> Any:
    """Return the module of a kernel."""
    return import_module(f"studies.miscompiled.kernels.{name}")


def expected(case: Any, release: str) -> bool:
    """Return whether a release miscompiles the kernel, as its file says."""
    first, last = getattr(case, "FIRST_BAD", "0"), case.LAST_BAD
    return Version(first) <= Version(release) <= Version(last)


def _allocated(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    del alignment, stream
    return torch.empty(size, dtype=torch.int8)


def run(case: Any) -> Shown:
    """Run a kernel in this process, on the PTX machine."""
    os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp())
    engine = PtxEngine()
    engine.prepare()
    engine.emulate(catalogue.find(DEVICES[case.CAPABILITIES[0]]))
    triton.set_allocator(_allocated)
    values: Any = None
    try:
        values = case.launch(*case.arguments())
    except CannotExecute as error:
        reason = str(error)
    else:
        reason = ""
    flaws = [event for event in engine.memory_events() if isinstance(event, CompiledFlaw)]
    if flaws:
        return Shown(kind=flaws[0].kind, text=f"{flaws[0].opcode} at {flaws[0].site.source}")
    if reason:
        return Shown(kind=ERROR, text=reason)
    if not case.agrees(values, case.reference(*case.arguments())):
        return Shown(kind="values", text="differ from the definition")
    return Shown(kind="right", text="values and accesses")
