"""A child program: emulate a GPU and print torch's answers, forward and backward.  program_torch_facts.py SLUG"""

import json
import sys
import time
from importlib import import_module
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from harness.catalogue import find
from harness.engines.torch.torch_emulation import DeviceNotEmulated, emulate_torch, install_emulation

SEEN_IN_BACKWARD: list[str] = []

custom_fwd: Any = torch.amp.custom_fwd(device_type="cuda")
custom_bwd: Any = torch.amp.custom_bwd(device_type="cuda")


class Doubled(torch.autograd.Function):
    @staticmethod
    @custom_fwd
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch passes it
        return x * torch.full((1,), 2.0, device="cuda")

    @staticmethod
    @custom_bwd
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:  # noqa: ARG004 - torch passes it
        SEEN_IN_BACKWARD.append(f"{gradients[0].device} {gradients[0].is_cuda}")
        with torch.cuda.device(gradients[0].device.index):
            return gradients[0] * torch.full((1,), 2.0, device="cuda")


def device_facts() -> dict[str, object]:
    properties = torch.cuda.get_device_properties(torch.device("cuda", 0))
    return {
        "available": torch.cuda.is_available(),
        "count": torch.cuda.device_count(),
        "current": torch.cuda.current_device(),
        "name": torch.cuda.get_device_name(),
        "capability": list(torch.cuda.get_device_capability("cuda:0")),
        "sm_count": properties.multi_processor_count,
        "shared_bytes": getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block),
        "lanes": properties.warp_size,
        "processor": properties.gcnArchName,
        "builds": torch.cuda.get_arch_list(),
        "tf32": torch.cuda.is_tf32_supported(),
        "hip_version": torch.version.hip is not None,
        "l2_bytes": properties.L2_cache_size,
        "read_only": refuses(lambda: setattr(properties, "major", 1), AttributeError),
        "second_gpu": refuses(lambda: torch.cuda.get_device_name(1), AssertionError),
        "bf16": torch.cuda.is_bf16_supported(),
        "cuda_version": torch.version.cuda is not None,
        "accelerator": str(torch.accelerator.current_accelerator()),
        "module": torch.get_device_module().__name__,
        "memory_free": torch.cuda.mem_get_info()[0],
    }


def meta_facts(x: torch.Tensor) -> list[object]:
    return [str(x.device), x.is_cuda, x.is_meta, x.get_device()]


def tensor_facts() -> dict[str, object]:
    x = torch.ones(2, 3, device="cuda", requires_grad=True)
    Doubled.apply(x).sum().backward()
    (grad,) = torch.autograd.grad(Doubled.apply(x).sum(), x)
    torch.set_default_device("cuda")
    by_default = torch.zeros(2)
    torch.set_default_device(None)
    assert x.grad is not None
    return {
        "device": str(x.device),
        "is_cuda": x.is_cuda,
        "index": x.get_device(),
        "really": str(x.untyped_storage().device),
        "without_memory": meta_facts(torch.empty(2, device="meta")),
        "gradients": [x.grad.tolist(), grad.tolist()],
        "in_backward": SEEN_IN_BACKWARD,
        "moved": [x.cuda() is x, x.to("cuda:0") is x, x.to(torch.float64).dtype is torch.float64, x.cpu() is x],
        "pinned": torch.empty(3, pin_memory=True).shape[0],
        "like": str(torch.empty_like(x).new_zeros(1, device=x.device).untyped_storage().device),
        "by_default": str(by_default.untyped_storage().device),
        "counted": torch.histc(
            torch.tensor([0, 2, 2], dtype=torch.int32, device="cuda"), bins=3, min=0, max=2
        ).tolist(),
        "loss": mean_loss(),
        "autocast": autocast_types(),
        "recomputed": checkpointed(),
        "module": str(torch.nn.LayerNorm(3).cuda().to("cuda")(x).device),
    }


def autocast_types() -> list[str]:
    """The types of a product inside a block of autocast, in a block inside that turns it off, and behind both."""
    x, types = torch.ones(2, 2, device="cuda"), list[str]()
    with torch.autocast("cuda", dtype=torch.float16):
        types.append(str((x @ x).dtype))
        with torch.autocast("cuda", enabled=False):
            types.append(str((x @ x).dtype))
    with torch.autocast("cuda"):
        types.append(str(torch.nn.functional.linear(x, x).dtype))
    return [*types, str((x @ x).dtype)]


def mean_loss() -> float:
    """The mean of 512 equal losses among 1,024 rows, which the CPU adds up in 16 bits."""
    logits, labels = torch.zeros(1024, 4, dtype=torch.bfloat16), torch.zeros(1024, dtype=torch.int64)
    labels[::2] = -100
    return torch.nn.functional.cross_entropy(logits.cuda(), labels.cuda()).item()


def checkpointed() -> list[float]:
    x = torch.ones(2, device="cuda", requires_grad=True)
    loss: Any = checkpoint(lambda t: (t * t).sum(), x, use_reentrant=True)
    loss.backward()
    assert x.grad is not None
    return x.grad.tolist()


def stream_facts() -> dict[str, object]:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().wait_event(begin)
    end.record()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return {"elapsed": begin.elapsed_time(end) >= 0, "raw": torch.cuda.current_stream().cuda_stream}


def random_facts() -> dict[str, object]:
    torch.manual_seed(3)
    first = torch.rand(4, device="cuda")
    state = torch.cuda.get_rng_state()
    with torch.random.fork_rng():
        torch.rand(1)
    torch.manual_seed(3)
    return {"seeded": torch.equal(first, torch.rand(4)), "restored": torch.equal(state, torch.get_rng_state())}


def refuses(action: Any, error: type[Exception]) -> bool:
    try:
        action()
    except error:
        return True
    return False


def microseconds_a_call() -> float:
    x = torch.zeros(3)
    begin = time.perf_counter()
    for _ in range(2000):
        x.add(1)
    return (time.perf_counter() - begin) / 2000 * 1e6


if __name__ == "__main__":
    install_emulation()
    import_module("torch._dynamo")  # it inspects torch.cuda, and rejects functions that it does not recognise
    questions = (torch.cuda.get_device_name, torch.cuda.get_device_properties)
    refused = all(refuses(question, DeviceNotEmulated) for question in questions)
    emulate_torch(find(sys.argv[1]))

    facts = {
        "refused_before": refused,
        "device": device_facts(),
        "tensor": tensor_facts(),
        "stream": stream_facts(),
        "random": random_facts(),
        "microseconds_a_call": microseconds_a_call(),
    }
    print(json.dumps(facts))  # noqa: T201 - its report
