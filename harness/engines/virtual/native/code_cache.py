"""Machine code on disk, keyed by everything that it depends on, so workers and later runs share one compilation."""

import hashlib
import json
import struct
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

from harness import wire
from harness.engines.ttir import axis_claims, wide_accesses
from harness.engines.ttir.source_version import source_version
from harness.engines.virtual.native.llvm_jit import Effort, Host
from harness.engines.virtual.native.lowering import ReportedLoad, Target
from harness.engines.virtual.native.product_code import ProductBlock

SUFFIX = ".native"
SECONDS_SUFFIX = ".seconds"
_SECONDS = struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel's object file, the arena size that its caller provides, and its load sites."""

    image: bytes
    arena_bytes: int
    sites: tuple[ReportedLoad, ...]
    effort: Effort = Effort.MOST
    products: tuple[ProductBlock, ...] = ()
    """The shared code that it calls."""


@cache
def _lowering_version() -> str:
    """The version of the source that decides the code."""
    analyses = (axis_claims, wide_accesses)
    return source_version((*Path(__file__).parent.glob("*.py"), *(Path(str(each.__file__)) for each in analyses)))


def key(text: str, target: Target, host: Host) -> str:
    """The name of the code of one TTIR text, by its digest, on one CPU."""
    parts = (
        text,
        target.vendor,
        sorted(target.tracked),
        target.width,
        host.cpu,
        host.features,
        host.llvm,
        _lowering_version(),
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def product_key(block: ProductBlock, host: Host) -> str:
    """The name of the code that sums products by such blocks on one CPU."""
    return hashlib.sha256(json.dumps((*block, *astuple(host), _lowering_version())).encode()).hexdigest()[:24]


class Store:
    """A folder of compiled kernels; with None, nothing is stored."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def find(self, name: str) -> Compiled | None:
        if self._folder is None:
            return None
        try:
            content = (self._folder / f"{name}{SUFFIX}").read_bytes()
        except FileNotFoundError:
            return None
        head, _, image = content.partition(b"\n")
        facts = json.loads(head)
        sites = tuple(ReportedLoad(*site) for site in facts["sites"])
        products = tuple(ProductBlock(*block) for block in facts["products"])
        return Compiled(image, facts["arena_bytes"], sites, Effort(facts["effort"]), products)

    def keep(self, name: str, compiled: Compiled) -> None:
        """Write the code, whole or not at all: other processes read it."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        facts = {
            "arena_bytes": compiled.arena_bytes,
            "sites": [(site.operation, site.argument) for site in compiled.sites],
            "effort": compiled.effort,
            "products": compiled.products,
        }
        contents = json.dumps(facts).encode(), b"\n", compiled.image
        wire.write_bytes(contents, self._folder / f"{name}{SUFFIX}")
        with suppress(FileNotFoundError):
            self._seconds_file(name).unlink()

    # --- time without code ---

    def machine_seconds(self, name: str) -> float:
        """Return the time that the machine has spent on the code's launches, in all processes so far."""
        if self._folder is None:
            return 0.0
        try:
            content = self._seconds_file(name).read_bytes()
        except FileNotFoundError:
            return 0.0
        whole = len(content) // _SECONDS.size * _SECONDS.size
        return sum(seconds for (seconds,) in _SECONDS.iter_unpack(content[:whole]))

    def add_machine_seconds(self, name: str, seconds: float) -> None:
        """Add time that the machine spent on a launch: the next process need not spend it again to compile the code."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._seconds_file(name).open("ab", buffering=0) as file:  # one write, whole, at the end of the file
            file.write(_SECONDS.pack(seconds))

    def _seconds_file(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{name}{SECONDS_SUFFIX}"
