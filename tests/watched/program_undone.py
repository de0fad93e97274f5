"""Runs blocks of `harness.run`, and prints what they leave changed in torch, Triton and the process."""

import importlib
import json
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
import triton
from triton import knobs

import harness

kernels: Any = importlib.import_module("kernels")
PROJECTS = ("torch", "triton")
FIRST = ("torch._dynamo", "torch._inductor.compile_fx", "triton.compiler.compiler", "triton.backends.nvidia.driver")
"""Modules that the harness changes, as far as importing them does not change others."""


def owners() -> Iterator[tuple[str, Any]]:
    """Yield modules, classes and objects of both projects."""
    yield "threading.Thread", threading.Thread
    yield "triton.runtime.driver", triton.runtime.driver
    for name in ("runtime", "compilation", "nvidia", "cache"):
        yield f"knobs.{name}", getattr(knobs, name)
    modules: dict[str, Any] = dict(sys.modules)
    for name, module in modules.items():
        if isinstance(module, ModuleType) and name.partition(".")[0] in PROJECTS:
            yield name, module
            for value in tuple(vars(module).values()):
                if isinstance(value, type) and value.__module__.partition(".")[0] in PROJECTS:
                    yield f"{value.__module__}.{value.__qualname__}", value


def attributes() -> dict[tuple[str, str], object]:
    return {(name, key): value for name, owner in owners() for key, value in tuple(vars(owner).items())}


def changed(before: dict[tuple[str, str], object], outside: set[str]) -> list[str]:
    """Return the attributes that differ: modules that were imported since, and Dynamo's own counters, do not count."""
    after = attributes()
    names = [key for key in before if before[key] is not after.get(key) and key[0] in outside]
    names += [
        key
        for key in after.keys() - before.keys()
        if key[0] in outside and not isinstance(after[key], ModuleType) and not key[1].startswith("__")
    ]
    return sorted(".".join(name) for name in names)


def main() -> None:
    warnings.simplefilter("ignore")
    for name in FIRST:
        importlib.import_module(name)
    before, environment, modes = attributes(), dict(os.environ), torch.overrides._get_current_function_mode_stack()
    outside = {name for name, _ in owners()}
    with harness.run(device="h200") as first:
        x = torch.ones(20, device="cuda")
        kernels.run(kernels.add_one, x)
        inside = (torch.cuda.get_device_name(), x.is_cuda)
    facts: dict[str, object] = {
        "inside": inside,
        "changed": changed(before, outside),
        "variables": sorted(name for name in os.environ if environment.get(name) != os.environ[name]),
        "modes": torch.overrides._get_current_function_mode_stack() == modes,
        "is_cuda": x.is_cuda,
    }
    with harness.run(device="h200") as second:
        kernels.run(kernels.add_one, x)
        with harness.run(device="h200"):
            pass
        facts["again"] = (torch.cuda.get_device_name(), x.is_cuda)
    facts["launches"] = (first.launches, second.launches)
    facts["changed_again"] = changed(before, outside)
    print(json.dumps(facts))  # noqa: T201 - the answer


main()
