"""CPU tensors that look like tensors of a GPU to a library: a torch function mode between the library and torch.

The device is `cuda:0`, for Intel's GPUs `xpu:0`.  Of CUDA:

* `device="cuda"`, `.cuda()`, `.to("cuda")` and `pin_memory` give CPU tensors.
* `x.is_cuda` is true and `x.device` is `cuda:0` for every tensor, even one made with `device="cpu"`; not with `meta`.
* Products with an `out_dtype` work, although torch has them for CUDA alone.
* Products never read the gaps between a matrix's rows.
* Integers have histograms, and losses of 16-bit numbers are added up in float32.
* `.cpu()` and `.to("cpu")` copy, as they do from a GPU.

A mode belongs to a thread.  Cases run on the thread that entered it, or in a child that was forked from that thread.
Inside a call that torch hands to the mode (`Tensor.__repr__`, `torch.save`), the mode is off and tensors look as they
are.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.autograd
import torch.utils._device
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from harness.engines.torch.matrix_products import HALVES, PRODUCTS, WIDENED, close_gaps, widen
from harness.engines.torch.torch_seam import RUN
from harness.patches import PATCHES

CPU = torch.device("cpu")


class EmulatedGpu:
    """The torch device of the GPU that this process emulates."""

    kind = "cuda"
    device = torch.device("cuda", 0)

    @classmethod
    def choose(cls, kind: str) -> None:
        """Let tensors be on `cuda:0` or `xpu:0` from now on.  Modes that are entered already keep their device."""
        cls.kind, cls.device = kind, torch.device(kind, 0)


class CpuTensors(TorchFunctionMode):
    """Lets a library that works on tensors of a GPU work on CPU tensors."""

    def __init__(self) -> None:
        super().__init__()
        gpu, is_xpu = EmulatedGpu.device, EmulatedGpu.kind == "xpu"
        self._answers: dict[Any, Callable[..., Any]] = {
            torch.Tensor.to: _to,
            torch.Tensor.histc: _histogram,
            torch.histc: _histogram,
            functional.cross_entropy: _in_float32(functional.cross_entropy),
            functional.nll_loss: _in_float32(functional.nll_loss),
            torch.Tensor.xpu if is_xpu else torch.Tensor.cuda: lambda tensor, *_, **__: tensor,
            torch.Tensor.cpu: lambda tensor, *_, **__: tensor.clone(),
            torch.Tensor.pin_memory: lambda tensor, *_, **__: tensor,
            torch.Tensor.get_device: lambda tensor: tensor.get_device() if tensor.is_meta else gpu.index,
            _getter(torch.Tensor.is_cuda): lambda tensor: not (is_xpu or tensor.is_meta),
            _getter(torch.Tensor.is_xpu): lambda tensor: is_xpu and not tensor.is_meta,
            _getter(torch.Tensor.is_cpu): lambda _: False,
            _getter(torch.Tensor.device): lambda tensor: tensor.device if tensor.is_meta else gpu,
        }

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Answer questions about devices; call everything else with CPU in the place of the GPU."""
        if (answer := self._answers.get(func)) is not None:
            return answer(*args, **kwargs) if kwargs else answer(*args)
        is_product = func in PRODUCTS or func in WIDENED
        if not kwargs and not is_product:
            return func(*args)
        kwargs = kwargs or {}
        if _means_gpu(kwargs.get("device")):
            kwargs = {**kwargs, "device": CPU}
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        if is_product:
            args, kwargs = widen(func, args, kwargs)
            args = close_gaps(func, args)
        return func(*args, **kwargs)


def _in_float32(loss: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return the loss as a GPU computes it: the CPU adds up 16-bit numbers in 16 bits, which loses two digits."""

    def call(input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: A002 - torch's own name
        if input.dtype not in HALVES:
            return loss(input, *args, **kwargs)
        args = tuple(_widened(value) for value in args)
        kwargs = {name: _widened(value) for name, value in kwargs.items()}
        return loss(input.float(), *args, **kwargs).to(input.dtype)

    return call


def _widened(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype in HALVES else value


def _histogram(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Count numbers by bins.  On the CPU torch counts floating-point numbers alone; float64 holds the integers."""
    if tensor.is_floating_point():
        return torch.histc(tensor, *args, **kwargs)
    return torch.histc(tensor.double(), *args, **kwargs).to(tensor.dtype)


def keep_answering_in_backward() -> None:
    """Run backward functions under the mode too.

    Torch hands `Tensor.backward` and `torch.autograd.grad` to the mode as one call, and the mode is off inside a call.
    A library's backward would then see CPU tensors.  Therefore both are replaced so that they bypass the mode.
    """

    def backward(
        tensor: torch.Tensor,
        gradient: Any = None,
        retain_graph: Any = None,
        create_graph: Any = False,  # noqa: FBT002 - as torch's own signature has it
        inputs: Any = None,
    ) -> None:
        torch.autograd.backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)

    def no_mode(tensors: object) -> bool:  # noqa: ARG001 - torch's own asks of the tensors
        return False

    why = "torch hands the call to the mode, which is off inside a call, and a backward function would see the CPU"
    PATCHES.replace(torch.Tensor, "backward", backward, why=why, releases=RUN)
    PATCHES.replace(torch.autograd, "has_torch_function", no_mode, why=why, releases=RUN)


def let_default_device_be_gpu() -> None:
    """Support `torch.set_default_device("cuda")` and `with torch.device("cuda"):`, or `xpu`.

    Both push a mode of torch below ours, which would make real tensors of the GPU.
    """
    context: Any = torch.utils._device.DeviceContext  # noqa: SLF001 - the mode that both use
    original = context.__init__

    def on_cpu(self: Any, device: Any) -> None:
        original(self, CPU if _means_gpu(device) else device)

    PATCHES.replace(
        context, "__init__", on_cpu, why="its mode is below ours, and would make tensors of the GPU", releases=RUN
    )


def _to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    device = kwargs.get("device", args[0] if args else None)
    if _means_cpu(device) and len(args) < 4:  # a fourth positional argument is `copy`
        kwargs = {**kwargs, "copy": True}
    if _means_gpu(device):
        if "device" in kwargs:
            kwargs = {**kwargs, "device": CPU}
        else:
            args = (CPU, *args[1:])
    return tensor.to(*args, **kwargs)


def _means_gpu(device: Any) -> bool:
    match device:
        case torch.device(type=kind):
            return kind == EmulatedGpu.kind
        case str():
            return device.partition(":")[0] == EmulatedGpu.kind
        case bool() | None:
            return False
        case _:
            return isinstance(device, int)


def _means_cpu(device: Any) -> bool:
    return device in ("cpu", CPU)


def _getter(descriptor: Any) -> Any:
    # Torch hands the read of a tensor's property to a mode as its descriptor's `__get__`.
    return descriptor.__get__
