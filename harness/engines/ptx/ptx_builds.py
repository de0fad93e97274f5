"""The PTX of kernels: compiled once from TTIR, kept in memory and in the folder of builds."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.documents.files import write_text
from harness.engines.ptx.native.native_runs import NativePolicy
from harness.engines.ptx.ptx_kernel import PtxKernel
from harness.engines.ptx.ptx_text import parse
from harness.engines.ptx.wave_runner import INTERPRETED, PreparedKernel
from harness.engines.triton.later_stages import EXECUTABLE
from harness.engines.triton.omitted_passes import VariantBuild, builds_without_passes
from harness.engines.triton.stage_process import compiled_text
from harness.engines.virtual.native.native_code import ExecutorMode
from harness.errors import CannotExecute
from harness.model.device import TENSOR_MEMORY_COLUMNS, Arch, DeviceProfile

SUFFIX = ".ptx"
"""The suffix of a build's PTX in the folder of builds."""


@dataclass(frozen=True, kw_only=True)
class PtxBuild:
    """One kernel as PTX, with what a launch of it needs to know."""

    text: str
    shared_bytes: int
    """The shared memory that the launch gives to each CTA."""
    scratch_bytes: int
    """The scratch memory of a CTA."""
    tensor_columns: int = 0
    """The columns of tensor memory that a CTA allocates."""
    num_ctas: int
    """The CTAs of a cluster, which execute one program together."""
    tensor_maps: Sequence[Mapping[str, Any]]
    """What Triton knows of each descriptor argument made by host code."""
    policy: NativePolicy = INTERPRETED
    """Which instructions become native code."""

    @classmethod
    def of(cls, content: str, policy: NativePolicy = INTERPRETED) -> "PtxBuild":
        """Read what `compile_to_executable` returns."""
        facts = json.loads(content)
        return cls(
            text=facts["ptx"],
            shared_bytes=int(facts["shared"] or 0),
            scratch_bytes=int(facts["global_scratch_size"] or 0),
            tensor_columns=int(facts["tmem_size"] or 0),
            num_ctas=int(facts["num_ctas"] or 1),
            tensor_maps=facts["tensordesc_meta"] or (),
            policy=policy,
        )

    def require_room(self, device: DeviceProfile) -> None:
        """Refuse a launch that the GPU refuses.  Its addresses would not fit the fields of descriptors, either.

        Raises:
            CannotExecute: a CTA needs more shared or tensor memory than the GPU has.
        """
        for memory, needed, most in (
            ("bytes of shared memory", self.shared_bytes, device.shared_bytes_per_block),
            ("columns of tensor memory", self.tensor_columns, TENSOR_MEMORY_COLUMNS),
        ):
            if needed > most:
                raise CannotExecute(f"a block with {needed:,} {memory}: the {device.name} has {most:,}")

    @cached_property
    def kernel(self) -> PtxKernel:
        """The parsed kernel.

        Raises:
            CannotExecute: the text cannot be read.
        """
        return parse(self.text)

    @cached_property
    def prepared(self) -> PreparedKernel:
        """The kernel, ready to execute.

        Raises:
            CannotExecuteAt: an instruction is not known.
        """
        return PreparedKernel(self.kernel, self.policy)


class PtxBuilds:
    """Compiles kernels to PTX."""

    def __init__(
        self, folder: Path | None, mode: ExecutorMode, add_seconds: Callable[[float], None] | None = None
    ) -> None:
        """Compile nothing yet.

        Args:
            folder: keeps what is compiled; None to keep nothing.
            mode: decides whether native code is made.
            add_seconds: gets the seconds that compiling took, each time.
        """
        self._folder = folder
        self._policy = NativePolicy(mode, folder)
        self._known: dict[str, PtxBuild] = {}
        self._add_seconds = add_seconds

    def of(
        self,
        digest: str,
        ttir: str,
        arch: Arch,
        options: Mapping[str, Any],
        tensor_maps: Sequence[Mapping[str, Any]] = (),
    ) -> PtxBuild:
        """Return the PTX of a kernel.

        Args:
            digest: that of the build.
            ttir: TTIR or TTGIR.
            arch: the architecture, for example 90.
            options: of the build.
            tensor_maps: what is known of descriptor arguments; Triton does not say it again where it compiles TTGIR.

        Raises:
            CannotExecute: the kernel does not compile.
        """
        if digest not in self._known:
            began = time.perf_counter()
            build = self._read(digest) or self._compile(digest, ttir, arch, options)
            self._known[digest] = build if build.tensor_maps else replace(build, tensor_maps=tensor_maps)
            if self._add_seconds is not None:
                self._add_seconds(time.perf_counter() - began)
        return self._known[digest]

    def without_passes(
        self, ttir: str, arch: Arch, options: Mapping[str, Any], until: float
    ) -> Iterator[tuple[VariantBuild, PtxBuild | None]]:
        """Yield what `builds_without_passes` does, with the PTX; None if there is none."""
        for variant in builds_without_passes(ttir, arch, _given(options), until):
            yield variant, PtxBuild.of(variant.content, self._policy) if variant.content else None

    def _read(self, digest: str) -> PtxBuild | None:
        path = None if self._folder is None else self._folder / f"{digest}{SUFFIX}"
        if path is None or not path.exists():
            return None
        try:
            return PtxBuild.of(path.read_text(encoding="utf-8"), self._policy)
        except (ValueError, KeyError):  # the file is damaged: compile again
            return None

    def _compile(self, digest: str, ttir: str, arch: Arch, options: Mapping[str, Any]) -> PtxBuild:
        try:
            content = compiled_text(ttir, EXECUTABLE, arch, _given(options))
        except RuntimeError as error:
            raise CannotExecute(f"a kernel without PTX: {error}") from None
        if self._folder is not None:
            with suppress(OSError):  # a full disk costs another compilation
                self._folder.mkdir(parents=True, exist_ok=True)
                write_text(content, self._folder / f"{digest}{SUFFIX}")
        return PtxBuild.of(content, self._policy)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that have a value."""
    return {name: value for name, value in options.items() if value is not None}
