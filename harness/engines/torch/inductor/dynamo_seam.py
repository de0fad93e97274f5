"""The seam to TorchDynamo: what it sees of the emulated GPU while it traces a program.

The tensors of the virtual GPU are on the CPU, and torch's modes answer for the GPU.  Dynamo would trace into these
modes.  Here it leaves them out of what it traces, and answers questions about a tensor's device itself.

`tests/watched/test_followed_programs.py` fails when a release of torch moves a name.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import torch

from harness.engines.torch.inductor.inductor_emulation import RUN
from harness.engines.torch.torch_seam import OperatorMode
from harness.patches import PATCHES

# Typed as `Any`: these modules are private, and their types tell little.
native: Any = import_module("torch._C")
FakeTensorMode: Any = import_module("torch._subclasses.fake_tensor").FakeTensorMode
DeviceContext: Any = import_module("torch.utils._device").DeviceContext
map_aggregate: Any = import_module("torch.fx.node").map_aggregate

HandOver = Callable[[str, Callable[[], Any]], Any]
"""Gets the name of a graph's backend, and what hands the graph to it; returns what that returns."""
CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


class FakeDevices:
    """Where new fake tensors are."""

    are_real = False
    """True while Inductor compiles a graph of CUDA tensors."""


@cache
def keep_new_fakes_on_cpu() -> None:
    """Put fake tensors that a program makes on CUDA on the CPU, as all others are, until Inductor gets the graph."""
    dispatch = FakeTensorMode.dispatch

    def dispatch_on_one_device(
        self: Any, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if not FakeDevices.are_real and "device" in (kwargs or {}):
            kwargs = {name: cpu_for_gpu(value) for name, value in (kwargs or {}).items()}
        return dispatch(self, func, types, args, kwargs)

    _replace(FakeTensorMode, {"dispatch": dispatch_on_one_device}, "fake tensors of a program are on the CPU")
    no_memory = "as without a GPU, `torch.tensor` makes no memory on the device of a fake tensor"
    _replace(FakeTensorMode, {"avoid_device_init": True}, no_memory)
    why = "the guard of CUDA devices stays the one of `device_guard`"
    _replace(native, {"_ensureCUDADeviceGuardSet": lambda: None}, why)


def _replace(owner: Any, replacements: Mapping[str, object], why: str) -> None:
    PATCHES.replace_each(owner, replacements, why=why, releases=RUN)


def cpu_for_gpu(value: Any) -> Any:
    """Return the CPU for a CUDA device; everything else as it is."""
    match value:
        case torch.device(type="cuda"):
            return CPU
        case str() if value.partition(":")[0] == "cuda":
            return CPU.type
        case _:
            return value


def move_to_cpu(graph: Any) -> None:
    """Let a graph of Dynamo make all its tensors on the CPU, where the tensors of the virtual GPU are."""
    for module in graph.modules():
        if not hasattr(module, "graph"):
            continue
        for node in module.graph.nodes:
            if (node.op, node.target) == ("call_method", "cuda"):
                node.target, node.args, node.kwargs = "to", (node.args[0], CPU), {}
            node.args = map_aggregate(node.args, cpu_for_gpu)
            node.kwargs = map_aggregate(node.kwargs, cpu_for_gpu)
        module.recompile()


@cache
def emulate_in_traces(answering: tuple[type, ...], handed_over: HandOver) -> None:
    """Let programs that Dynamo traces see the GPU.

    Args:
        answering: the classes of the modes that answer for the GPU.  They stay on; Dynamo does not trace into them.
        handed_over: hands each graph to its backend.
    """
    keep_new_fakes_on_cpu()
    _leave_out_modes(answering)
    _leave_out_operator_modes()
    _hand_over_on_cpu(handed_over)
    variable: Any = import_module("torch._dynamo.variables.tensor").TensorVariable
    build: Callable[..., Any] = import_module("torch._dynamo.variables.base").VariableTracker.build
    answers = {
        "method_attr_device": lambda _, tx: build(tx, GPU),
        "method_attr_is_cuda": lambda _, tx: build(tx, True),  # noqa: FBT003 - the value that is built
        "method_attr_is_cpu": lambda _, tx: build(tx, False),  # noqa: FBT003 - as above
        "method_get_device": lambda _, tx: build(tx, GPU.index),
    }
    _replace(variable, answers, "Dynamo does not trace into the mode that answers for the GPU")


def _leave_out_modes(answering: tuple[type, ...]) -> None:
    state: Any = import_module("torch._dynamo.variables.torch_function").SymbolicTorchFunctionState
    original = state.__init__

    def without_them(self: Any, py_stack: Any, *args: Any, **kwargs: Any) -> None:
        modes = list(py_stack)
        original(self, modes, *args, **kwargs)
        pairs = tuple(zip(self.mode_stack, modes, strict=True))
        self.mode_stack.clear()
        self.mode_stack.extend(known for known, mode in pairs if not isinstance(mode, answering))

    _replace(state, {"__init__": without_them}, "Dynamo would trace into the modes that answer for the GPU")
    _keep_in_stacks(answering)


def _leave_out_operator_modes() -> None:
    """Keep Dynamo out of the modes that follow operators: where a program falls back to Python, it traces what runs."""
    disable: Any = import_module("torch._dynamo").disable
    why = "Dynamo would trace into the modes that follow operators"
    for mode in OperatorMode.__subclasses__():
        _replace(mode, {"__torch_dispatch__": disable(mode.__torch_dispatch__)}, why)


def _keep_in_stacks(answering: tuple[type, ...]) -> None:
    """Keep the modes when a compiled program changes the stack of modes, of which Dynamo knows the other ones."""
    known: Any = import_module("torch._dynamo.utils")
    get, set_others = known.get_torch_function_mode_stack, known.set_torch_function_mode_stack

    def set_with_them(modes: Sequence[Any]) -> None:
        them = [mode for mode in get() if isinstance(mode, answering)]
        devices = [mode for mode in modes if isinstance(mode, DeviceContext)]  # the default device is at the bottom
        set_others([*devices, *them, *(mode for mode in modes if mode not in devices)])

    why = "a compiled program sets the stack of the modes that Dynamo knows"
    _replace(known, {"set_torch_function_mode_stack": set_with_them}, why)


def _hand_over_on_cpu(handed_over: HandOver) -> None:
    """Hand each graph to its backend, of whatever kind, as one of the CPU."""
    output: Any = import_module("torch._dynamo.output_graph").OutputGraph
    original = output.call_user_compiler

    def call_user_compiler(self: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
        move_to_cpu(graph)
        if self.export:  # not to be run
            return original(self, graph, *args, **kwargs)
        return handed_over(_name_of(self.compiler_fn), lambda: original(self, graph, *args, **kwargs))

    _replace(output, {"call_user_compiler": call_user_compiler}, "a backend gets the graph as one of the CPU")


def _name_of(backend: Any) -> str:
    """Return the name of a backend, without what Dynamo and `torch.compile` wrap it in."""
    while (inner := getattr(backend, "_torchdynamo_orig_backend", getattr(backend, "compiler_fn", None))) is not None:
        backend = inner
    return getattr(backend, "__name__", type(backend).__name__)
