"""The engines of the harness: their names, and what other rooms know about them.

Data alone: the parent process reads it, and stays free of torch and Triton.  No other file compares names of engines.
An engine from outside has traits of its own, as `Engine.traits`; processes other than its workers know its name alone.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTraits:
    """What other rooms know about an engine."""

    name: str
    """The name in runs and on the command line."""
    factory: str = ""
    """Module and name of the callable that makes the engine in a worker: `module:factory`."""
    place: str = ""
    """The GPUs that an engine of one machine runs on, for the help of `--engine`."""
    aliases: tuple[str, ...] = ()
    """Other names on the command line."""
    needs_gpu: bool = False
    """True if a session leases hardware GPUs for it.  Its workers use CUDA, so they cannot be forked again."""
    has_provenance: bool = False
    """True if it interprets kernels: it sees each access to global memory, and leaves TTIR to compile."""
    has_shadow: bool = False
    """True if it knows which programs touched each cell of global memory, and in which order."""
    has_shared_memory: bool = False
    """True if it executes compiled code, and sees each access to shared memory."""
    has_exact_runs: bool = False
    """True if it repeats cases in exact arithmetic."""
    repeats_cases: bool = False
    """True if it runs a case twice and compares the bits."""
    checks_tuning: bool = False
    """True if it lets autotuners tune in a further run."""
    compares: bool = False
    """True if it executes each launch on two machines and compares them."""
    finds_wrong_values: bool = False
    """True if it looks into a launch whose compiled code is wrong: it serves `PairedRunRequest.inquiry`."""
    runs_commands: bool = False
    """True if `harness run` checks launches with it."""
    emulates_all_vendors: bool = False
    """True if it emulates the GPUs of AMD and Intel too; others execute PTX, or compile for NVIDIA's."""

    @property
    def is_virtual(self) -> bool:
        """True if kernels run on the CPU alone, in the process that launches them."""
        return self.has_provenance and not self.needs_gpu

    @property
    def is_hardware(self) -> bool:
        """True if kernels run on hardware alone: other processes may compile for it, or show who is at fault."""
        return self.needs_gpu and not self.has_provenance

    def __str__(self) -> str:
        return self.name


VIRTUAL = EngineTraits(
    name="virtual",
    factory="harness.engines.virtual.engine:VirtualEngine",
    has_provenance=True,
    has_shadow=True,
    has_exact_runs=True,
    checks_tuning=True,
    runs_commands=True,
    emulates_all_vendors=True,
)
PTX = EngineTraits(
    name="ptx",
    factory="harness.engines.ptx.engine:PtxEngine",
    has_provenance=True,
    has_shared_memory=True,
    runs_commands=True,
)
CUDA = EngineTraits(
    name="cuda",
    factory="harness.engines.cuda.engine:CudaEngine",
    place="this machine's GPUs",
    needs_gpu=True,
    repeats_cases=True,
    runs_commands=True,
)
COMPARISON = EngineTraits(
    name="cuda,virtual",
    factory="harness.engines.cuda.comparison_engine:ComparisonEngine",
    aliases=("virtual,cuda",),
    needs_gpu=True,
    has_provenance=True,
    has_shadow=True,
    has_exact_runs=True,
    compares=True,
)
PTX_COMPARISON = EngineTraits(
    name="virtual,ptx",
    factory="harness.engines.ptx.ptx_comparison:PtxComparisonEngine",
    aliases=("ptx,virtual",),
    has_provenance=True,
    has_shadow=True,
    has_shared_memory=True,
    has_exact_runs=True,
    compares=True,
    finds_wrong_values=True,
)
PTX_ON_CUDA = EngineTraits(
    name="cuda,ptx",
    factory="harness.engines.cuda.comparison_engine:PtxOnCudaEngine",
    aliases=("ptx,cuda",),
    needs_gpu=True,
    has_provenance=True,
    has_shared_memory=True,
    compares=True,
)
COMPILE_AHEAD = EngineTraits(name="ahead", factory="harness.compiling.compile_ahead_engine:CompileAheadEngine")
"""Compiles for `CUDA` in other processes.  It launches nothing, so no case is checked there."""

ENGINES = (VIRTUAL, PTX, CUDA, COMPARISON, PTX_COMPARISON, PTX_ON_CUDA)
"""The engines that a user can choose by name; the first is the usual one."""
_BY_NAME = {engine.name: engine for engine in ENGINES}
_BY_SPELLING = {name: engine for engine in ENGINES for name in (engine.name, *engine.aliases)}


def traits_of_engine(name: str) -> EngineTraits:
    """Return the traits of the engine that a run names; none of them if the engine is from outside."""
    return _BY_NAME.get(name) or EngineTraits(name=name)


def find_engine(text: str) -> EngineTraits | None:
    """Return the harness's own engine that a short name or a factory names, if there is one."""
    return _BY_SPELLING.get(text) or next((engine for engine in ENGINES if engine.factory == text), None)
