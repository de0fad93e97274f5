"""One launch as code: the kernel with all it calls, the arguments and the launch.  Only child processes import this."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import triton.language as tl

from harness.engines.torch.torch_seam import plain_torch
from harness.engines.triton.driver import LaunchRequest
from harness.findings.repro.code_layout import needed_imports
from harness.findings.repro.pieces import LaunchRecord, Preamble
from harness.findings.repro.sources import PLAIN, Definitions
from harness.findings.repro.tensors import Writing, view_of, write

TAKEN = frozenset({"device", "nan", "inf", "run", "torch", "triton", "tl", "base64", "zlib"})
USUAL_OPTIONS: Mapping[str, object] = {
    "num_warps": 4,
    "num_stages": 3,
    "num_ctas": 1,
    "maxnreg": None,
    "launch_cooperative_grid": False,
}
DESCRIPTOR = "from triton.tools.tensor_descriptor import TensorDescriptor"


@dataclass(frozen=True, slots=True)
class LaunchSnapshot:
    """A launch as it was before it ran; `completed` adds the results."""

    record: LaunchRecord
    tensors: Mapping[str, torch.Tensor]
    """By variable."""

    def completed(self, results: Mapping[str, torch.Tensor]) -> LaunchRecord:
        """Return the record with an expression for each result that lies in one of its arguments."""
        by_storage = {tensor.untyped_storage().data_ptr(): name for name, tensor in self.tensors.items()}
        views: dict[str, str] = {}
        for name, value in results.items():
            held = by_storage.get(value.untyped_storage().data_ptr())
            if held is not None and value.numel():
                views[name] = view_of(held, self.tensors[held], value)
        return replace(self.record, results=views)


def snapshot(request: LaunchRequest) -> LaunchSnapshot:
    """Record a launch that is about to be executed."""
    with plain_torch():
        return _snapshot(request)


def _snapshot(request: LaunchRequest) -> LaunchSnapshot:
    function = request.source.fn
    definitions = Definitions(lambda module: not module.startswith(("triton", "torch", "math")), bare=True)
    kernel = definitions.add(function)
    arguments = _Arguments(definitions.missing, {*TAKEN, *definitions.blocks})
    constants = {
        function.arg_names[path[0]]: value
        for path, value in request.source.constants.items()
        if isinstance(path, tuple) and len(path) == 1
    }
    bound = dict(zip(function.arg_names, request.arguments, strict=False)) | constants
    texts = [f"{name}={arguments.text(name, value)}" for name, value in bound.items()]
    drawn, exact = Writing(exact=False), Writing(exact=True)
    for writing in (drawn, exact):
        write(arguments.tensors, writing)
    grid = request.grid
    while len(grid) > 1 and grid[-1] == 1:
        grid = grid[:-1]
    imports = dict.fromkeys(("import torch", "import triton", "import triton.language as tl", *definitions.imports))
    imports |= dict.fromkeys((*needed_imports(exact.lines), *([DESCRIPTOR] if arguments.has_descriptors else [])))
    preamble = Preamble(
        imports=tuple(imports), blocks=tuple(definitions.blocks.values()), missing=tuple(definitions.missing)
    )
    record = LaunchRecord(
        kernel=kernel,
        preamble=preamble,
        drawn=tuple(drawn.lines),
        exact=tuple(exact.lines),
        exact_missing=tuple(exact.missing),
        call=f"{kernel}[{tuple(grid)}]({', '.join([*texts, *_options(request.metadata)])})",
        arguments=arguments.variables,
        results={},
    )
    return LaunchSnapshot(record, arguments.tensors)


class _Arguments:
    """The arguments as expressions, and the tensors that the expressions name."""

    def __init__(self, missing: list[str], taken: set[str]) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self.variables: dict[str, str] = {}
        self.has_descriptors = False
        self._missing = missing
        self._taken = taken

    def text(self, name: str, value: Any) -> str:
        """Return an expression for the argument of that name."""
        match value:
            case torch.Tensor():
                return self._tensor(name, value)
            case tl.constexpr():
                return self.text(name, value.value)
            case tl.dtype():
                return f"tl.{next(dtype for dtype, known in vars(tl).items() if known is value or known == value)}"
            case tuple() | list():
                parts = [self.text(f"{name}_{number}", part) for number, part in enumerate(value)]
                return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
            case _ if isinstance(value, PLAIN):
                return repr(value)
            case _ if hasattr(value, "block_shape"):
                return self._descriptor(name, value)
            case _ if isinstance(getattr(value, "base", None), torch.Tensor):
                return f"triton.reinterpret({self._tensor(name, value.base)}, tl.{value.dtype.name})"
            case _:
                self._missing.append(f"the argument {name}, a {type(value).__name__}")
                return "None"

    def _tensor(self, name: str, value: torch.Tensor) -> str:
        variable = name
        while variable in self._taken:
            variable += "_"
        self.tensors[variable] = value.detach()
        self.variables[name] = variable
        return variable

    def _descriptor(self, name: str, value: Any) -> str:
        self.has_descriptors = True
        base = self._tensor(name, value.base)
        return f"TensorDescriptor({base}, {list(value.shape)}, {list(value.strides)}, {list(value.block_shape)})"


def _options(metadata: Any) -> list[str]:
    options = {name: getattr(metadata, name, usual) for name, usual in USUAL_OPTIONS.items()}
    return [f"{name}={value!r}" for name, value in options.items() if value != USUAL_OPTIONS[name]]
