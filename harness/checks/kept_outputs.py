"""Outputs of candidates on disk, under a key that follows from the inputs: the referee reads them in another process.

Files hold bytes and shapes, nothing that is executed when it is read.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from harness.execution.result_forms import kind_of

NAMES = "weights.json"


def key_of(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return a digest of names, shapes, types and bytes, whatever the layout in memory."""
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(f"{name}:{tuple(value.shape)}:{value.dtype};".encode())
        digest.update(bytes_of(value))
    return digest.hexdigest()[:32]


def keep_outputs(folder: Path, key: str, returned: Any) -> None:
    """Write what a candidate returned: a tensor, or a tuple of tensors."""
    parts = list(returned) if isinstance(returned, tuple | list) else [returned]
    if not all(isinstance(part, torch.Tensor) for part in parts):
        return
    header = {
        "is_single": not isinstance(returned, tuple | list),
        "outputs": [[kind_of(part.dtype), list(part.shape)] for part in parts],
    }
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{key}.{os.getpid()}"
    draft.write_bytes(json.dumps(header).encode() + b"\n" + b"".join(map(bytes_of, parts)))
    draft.rename(folder / key)


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


def keep_names(folder: Path, names: Iterable[str]) -> None:
    """Write the names of the weights that candidate and reference share."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"{NAMES}.{os.getpid()}"
    draft.write_text(json.dumps(list(names)), encoding="ascii")
    draft.rename(folder / NAMES)


def read_names(folder: Path) -> tuple[str, ...]:
    """Return the names of the weights that candidate and reference share; none if nothing was kept."""
    path = folder / NAMES
    return tuple(json.loads(path.read_text(encoding="ascii"))) if path.is_file() else ()


def bytes_of(value: torch.Tensor) -> bytes:
    """Return the elements' bytes in their order, whatever the layout in memory."""
    whole = value.detach().contiguous()
    return whole.reshape(-1).view(torch.uint8).numpy().tobytes() if whole.numel() else b""
