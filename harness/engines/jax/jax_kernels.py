"""One build of a kernel by jax-triton, and its launch through the virtual GPU's driver."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.engines.triton.driver import LaunchRequest, VirtualDriver
from harness.engines.triton.scratch_checks import SCRATCH_OPERATIONS
from harness.engines.triton.triton_seam import NOT_TUNED, ChosenConfig
from harness.errors import CannotExecute
from harness.execution import flight_recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchKind:
    """Why a kernel is launched."""

    model: str
    """The words of `TargetSettings.model`."""
    config: ChosenConfig = NOT_TUNED
    is_benchmark: bool = False


@dataclass(frozen=True, slots=True)
class JaxKernelBuild:
    """A kernel as jax-triton compiles it, as far as TTIR."""

    ttir: str
    source: Any
    """Triton's `ASTSource`, with the signature that jax-triton gave it."""
    options: Any
    """The backend's options."""

    @property
    def kernel(self) -> str:
        return self.source.fn.__name__

    def launch(
        self,
        driver: VirtualDriver,
        grid: tuple[int, int, int],
        arguments: Sequence[Any],
        kind: LaunchKind,
    ) -> None:
        """Launch the kernel with its arrays and numbers, in the order of its parameters.

        Raises:
            CannotExecute: the kernel needs scratch memory, or contains something unknown.
        """
        if any(name in self.ttir for name in SCRATCH_OPERATIONS):
            raise CannotExecute("scratch memory in a JAX call, for which jax-triton passes a null pointer,")
        assert driver.support is not None, "the driver runs no models"
        request = LaunchRequest(
            ttir=self.ttir,
            grid=grid,
            stream=0,
            source=self.source,
            metadata=self.options,
            arguments=self._arguments(arguments),
            model=kind.model,
            is_benchmark=kind.is_benchmark,
        )
        chooser = driver.support.chooser
        try:
            with (
                chooser.launching(kind.config),
                flight_recorder.launching(self.kernel, grid, f"num_warps: {self.options.num_warps}"),
            ):
                driver.launch(request)
        except Exception:
            chooser.failed = chooser.failed or (self.kernel, kind.config.count)
            raise

    def _arguments(self, arguments: Sequence[Any]) -> list[Any]:
        """Return an argument for each parameter of the Python function: compile-time constants included."""
        signature, names = self.source.signature, self.source.fn.arg_names
        constants = {names[path[0]]: value for path, value in self.source.constants.items()}
        values = iter(arguments)
        return [constants.get(name) if signature.get(name) == "constexpr" else next(values) for name in names]
