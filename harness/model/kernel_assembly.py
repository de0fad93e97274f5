"""Another way to assemble kernels than Triton's usual one, with which a failure is repeated to find its cause."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAssembly:
    """The assembler of some kernels of a run; the others are built as usual."""

    optimises: bool = True
    ptxas: str = ""
    """The path of the assembler; empty for the one that Triton takes."""
    kernels: tuple[str, ...] = ()
    """The kernels that it assembles; all if empty."""
