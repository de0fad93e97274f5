"""Builds: kernels as the ops of suites launch them, with every autotune config, and the compiler's facts about each."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.model.device import Vendor
from harness.model.ending import Source
from harness.model.kernel_resources import Resources

Constant = int | float | bool | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileTarget:
    """An architecture for which Triton compiles."""

    vendor: Vendor = Vendor.NVIDIA
    arch: str
    """As in Triton's target: `90` of an NVIDIA GPU, `gfx942` of an AMD one."""
    warp_size: int = 32

    def __str__(self) -> str:
        return f"sm_{self.arch}" if self.vendor is Vendor.NVIDIA else self.arch


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedBuild:
    """One config of a kernel at one call, ready for the compiler."""

    config: str
    """The config as Triton prints it; the launch options if the kernel is not autotuned."""
    index: int
    """The place in the autotuner's whole list."""
    is_kept: bool
    """True if the config survives the autotuner's pruning for this call."""
    constants: Mapping[str, Constant]
    """The constants in which configs of the kernel differ."""
    target: CompileTarget
    options: Mapping[str, Constant]
    key: str = ""
    """A digest of TTIR without source locations, options, target and compiler: equal builds have equal facts.

    Empty if the front end failed.
    """
    ttir: str = ""
    """The digest of the TTIR's file; empty if the front end failed."""
    grid: tuple[int, int, int] | None = None
    """None if the launch could not be followed so far."""
    failure: str = ""
    """The message of Triton's front end."""
    failure_source: Source | None = None
    removed: str = ""
    """The name that this release of Triton no longer has, if that is the failure: `triton.language.make_block_ptr`."""
    front_end_seconds: float = 0.0
    """CPU time; 0 if a config with equal constants came before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedKernel:
    """One kernel with one signature and set of constants, and all its configs."""

    kernel: str
    source: Source | None
    specialisation: str
    """A digest of signature and constants."""
    signature: Mapping[str, str]
    """The types of the arguments that are no constants: `*bf16`, `i32`."""
    constants: Mapping[str, Constant]
    """Those that all configs share."""
    is_tuned: bool
    environment: str = ""
    """The variables of the case, `FLA_USE_TMA=1`; empty in the usual environment."""
    op: str
    case: str
    builds: tuple[CollectedBuild, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedCase:
    """The kernels of one case that earlier cases of the device had not launched."""

    op: str
    case: str
    ending: str
    """Empty if the case completed."""
    launches: int
    kernels: tuple[CollectedKernel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFacts:
    """What the whole compiler pipeline makes of one kernel, constants, options and architecture."""

    shared_bytes: int = 0
    tensor_memory_columns: int = 0
    registers_per_thread: int = 0
    """Vector registers on AMD GPUs."""
    scalar_registers: int = 0
    """Only on AMD GPUs."""
    local_bytes_per_thread: int = 0
    """Stack frame: spills, and arrays that registers cannot hold."""
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    num_warps: int = 0
    """With those that warp specialisation adds."""
    num_ctas: int = 1
    warp_size: int = 32
    scratch_bytes_per_program: int = 0
    scratch_align: int = 1
    profile_scratch_bytes_per_program: int = 0
    profile_scratch_align: int = 1
    instructions: int = 0
    """Machine instructions in the kernel's section, padding included."""
    cubin: str = ""
    """A digest of the machine code."""
    assembly: str = ""
    """A digest of the PTX, or of AMD's assembly, without comments, debug lines and names of registers."""
    warnings: tuple[str, ...] = ()
    """Lines of the assembler."""
    failure: str = ""
    """The compiler's message if it refused the kernel; the figures are 0 then."""
    failure_source: Source | None = None
    unknown: str = ""
    """Why this machine could not compile the kernel, which may be fine."""
    cpu_seconds: float = 0.0

    @property
    def threads(self) -> int:
        return self.warp_size * self.num_warps

    @property
    def resources(self) -> Resources:
        return Resources(
            registers_per_thread=self.registers_per_thread,
            spill_bytes=self.local_bytes_per_thread,
            shared_bytes=self.shared_bytes,
            tensor_memory_columns=self.tensor_memory_columns,
            scratch_bytes_per_program=self.scratch_bytes_per_program,
            threads=self.threads,
            failure=self.failure,
            unknown=self.unknown,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """Everything that a compiler's process needs for one build."""

    key: str
    target: CompileTarget
    options: Mapping[str, Constant]
    ttir: str
    """The digest of the TTIR's file."""
