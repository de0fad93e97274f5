"""Outputs of candidates on their way to the referee, under a key that follows from the inputs.

Messages and files hold bytes and shapes, nothing that is executed when it is read.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch

from harness.checks.outputs_keeper import send
from harness.execution.result_forms import kind_of

NAMES = "weights"
"""The key of the weights' names."""


def send_outputs(address: str, key: str, returned: Any) -> None:
    """Send what a candidate returned: a tensor, or a tuple of tensors."""
    parts = list(returned) if isinstance(returned, tuple | list) else [returned]
    if not all(isinstance(part, torch.Tensor) for part in parts):
        return
    header = {
        "is_single": not isinstance(returned, tuple | list),
        "outputs": [[kind_of(part.dtype), list(part.shape)] for part in parts],
    }
    send(address, key, json.dumps(header).encode() + b"\n" + b"".join(map(bytes_of, parts)))


def send_names(address: str, names: Iterable[str]) -> None:
    """Send the names of the weights that candidate and reference share."""
    send(address, NAMES, json.dumps(list(names)).encode())


def read_outputs(folder: Path, key: str) -> Any:
    """Return the outputs that were kept for these inputs; None if there are none.

    Raises:
        ValueError: the file is damaged.
    """
    path = folder / key
    if not path.is_file():
        return None
    header, _, data = path.read_bytes().partition(b"\n")
    described = json.loads(header)
    sizes = [prod(shape) * getattr(torch, kind).itemsize for kind, shape in described["outputs"]]
    if sum(sizes) != len(data):  # before any memory is taken: a candidate may send any header
        raise ValueError(f"the outputs have {len(data)} bytes, and should have {sum(sizes)}")
    outputs: list[torch.Tensor] = []
    at = 0
    for kind, shape in described["outputs"]:
        dtype = getattr(torch, kind)
        value = torch.empty(shape, dtype=dtype)
        size = value.numel() * value.element_size()
        if value.numel():
            value = torch.frombuffer(bytearray(data[at : at + size]), dtype=dtype).reshape(shape)
        outputs.append(value)
        at += size
    return outputs[0] if described["is_single"] else tuple(outputs)


def read_names(folder: Path) -> tuple[str, ...]:
    """Return the names of the weights that candidate and reference share; none if nothing was kept."""
    path = folder / NAMES
    return tuple(json.loads(path.read_bytes())) if path.is_file() else ()


def key_of(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return a digest of names, shapes, types and bytes, whatever the layout in memory."""
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(f"{name}:{tuple(value.shape)}:{value.dtype};".encode())
        digest.update(bytes_of(value))
    return digest.hexdigest()[:32]


def gradients_key(inputs: Mapping[str, torch.Tensor], wanted: Iterable[str], cotangents: Iterable[torch.Tensor]) -> str:
    """Return the key of the gradients of the wanted inputs, for the cotangents of all outputs that have one."""
    marks = {f"gradient of {name}": torch.empty(0) for name in wanted}
    return key_of({**inputs, **marks, **{f"cotangent {at}": value for at, value in enumerate(cotangents)}})


def bytes_of(value: torch.Tensor) -> bytes:
    """Return the elements' bytes in their order, whatever the layout in memory."""
    whole = value.detach().contiguous()
    # A single element counts as contiguous whatever its strides are.
    flat = whole.as_strided((whole.numel(),), (1,))
    return flat.view(torch.uint8).numpy().tobytes() if whole.numel() else b""
