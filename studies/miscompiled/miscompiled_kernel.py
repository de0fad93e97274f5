"""One kernel that a release of Triton miscompiles: what its file states, and what the PTX machine shows of it."""

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import triton
from packaging.version import Version

from harness import catalogue
from harness.engines.ptx.engine import PtxEngine
from harness.engines.ptx.ptx_comparison import PtxComparisonEngine
from harness.engines.virtual.engine import VirtualEngine
from harness.errors import CannotExecute
from harness.model.miscompilation import InquiryRequest, Miscompilation
from harness.model.run import CompiledFlaw

FOLDER = Path(__file__).with_name("kernels")
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("[a-z]*.py")))
ERROR = "error"
"""What a run shows that executed nothing: no release is expected to."""
INQUIRY_S = 300.0
VALUES = "values"
"""What a run shows whose values differ from the definition."""
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


def _emulate(engine: VirtualEngine, case: Any) -> None:
    os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp())
    engine.prepare()
    engine.emulate(catalogue.find(DEVICES[case.CAPABILITIES[0]]))
    triton.set_allocator(_allocated)


def look_into(case: Any, flaw: str, *, blames_passes: bool) -> Miscompilation | None:
    """Return what is known of the wrong code of a kernel, in this process; None if PTX leaves what TTIR says.

    Args:
        case: the module of the kernel.
        flaw: the kind of flaw that it shows, in case that its values are right; empty if it shows none.
        blames_passes: also compile it without each pass.
    """
    engine = PtxComparisonEngine()
    _emulate(engine, case)
    with suppress(CannotExecute):
        case.launch(*case.arguments())
    wrong = engine.wrong_arguments()
    if not (flaw or wrong):
        return None
    kernel = engine.launched_kernels()[0]
    asked = InquiryRequest(
        kernel=kernel,
        argument=wrong[0] if wrong else "",
        flaw="" if wrong else flaw,
        blames_passes=blames_passes,
        limit_s=INQUIRY_S,
    )
    with engine.looking_into(asked) as inquiry:
        case.launch(*case.arguments())
    return inquiry.result


def run(case: Any) -> Shown:
    """Run a kernel in this process, on the PTX machine."""
    engine = PtxEngine()
    _emulate(engine, case)
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
        return Shown(kind=VALUES, text="differ from the definition")
    return Shown(kind="right", text="values and accesses")
