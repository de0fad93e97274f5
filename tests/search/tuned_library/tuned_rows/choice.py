"""The choice of a config: the table of a GPU and a width, and in it the entry for the nearest number of rows."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch


@lru_cache
def get_configs(columns: int) -> dict[int, Any] | None:
    device = torch.cuda.get_device_name().replace(" ", "_")
    file = Path(__file__).parent / "configs" / f"N={columns},device_name={device}.json"
    if not file.exists():
        return None
    return {int(key): config for key, config in json.loads(file.read_text()).items() if key.isdigit()}
