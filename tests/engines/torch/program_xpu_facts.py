"""A child program: emulate an Intel GPU and print torch's answers.  program_xpu_facts.py SLUG"""

import json
import sys
from typing import Any

import torch

from harness.catalogue import find
from harness.engines.torch.inductor.compiled_calls import emulated
from harness.engines.torch.torch_emulation import emulate_torch
from harness.errors import CannotExecute

SEEN_IN_BACKWARD: list[str] = []


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch passes it
        return x * torch.full((1,), 2.0, device="xpu")

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch passes it
        SEEN_IN_BACKWARD.append(f"{gradients[0].device} {gradients[0].is_xpu}")
        return gradients[0] * 2


def refusal(call: Any) -> str:
    try:
        call()
    except (AssertionError, CannotExecute, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


emulate_torch(find(sys.argv[1]))
properties: Any = torch.xpu.get_device_properties("xpu:0")
capability = torch.xpu.get_device_capability(0)
x = torch.ones(2, 3, requires_grad=True)
Doubled.apply(x).sum().backward()
torch.xpu.manual_seed_all(3)
stream = torch.xpu.Stream()
with torch.xpu.stream(stream), torch.xpu.device(0):
    entered = torch.xpu.current_stream() == stream
start, end = torch.xpu.Event(enable_timing=True), torch.xpu.Event(enable_timing=True)
start.record()
end.record()
torch.xpu.synchronize()
with torch.autocast("xpu", torch.bfloat16):
    product = x @ x.T
facts = {
    "cuda": [torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.is_initialized(), torch.version.cuda],
    "refused": [
        refusal(lambda: torch.empty(1, device="cuda")),
        refusal(x.cuda),
        refusal(torch.cuda.current_device),
        refusal(torch.xpu.XPUGraph),
        refusal(lambda: torch.xpu.get_device_name(1)),
        refusal(emulated),
    ],
    "xpu": [
        torch.xpu.is_available(),
        torch.xpu.device_count(),
        torch.xpu.current_device(),
        torch.xpu.get_device_name(),
    ],
    "version": torch.version.xpu is not None,
    "memory": torch.xpu.mem_get_info(),
    "properties": [properties.gpu_subslice_count, properties.gpu_eu_count, properties.version, properties.name],
    "capability": [capability["sub_group_sizes"], capability["architecture"], capability["has_fp64"]],
    "accelerator": [str(torch.accelerator.current_accelerator()), torch.get_device_module().__name__],
    "tensor": [str(x.device), x.is_xpu, x.is_cuda, x.is_cpu, str(torch.zeros(1, device="xpu").to("xpu").device)],
    "moved": [x.xpu() is x, x.cpu() is x],
    "in_backward": SEEN_IN_BACKWARD,
    "stream": [entered, torch.xpu.current_stream().sycl_queue, start.elapsed_time(end) >= 0],
    "autocast": str(product.dtype),
}
print(json.dumps(facts))  # noqa: T201 - its report
