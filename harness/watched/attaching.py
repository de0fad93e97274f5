"""Turns a process of a watched command into the emulated GPU, when it imports torch or Triton.

A process that imports neither stays as it is.  This file is light, for every Python that the command starts runs it.
"""

import importlib
import os
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from harness.engines.torch.import_hooks import Execute, on_import
from harness.watched.watch_records import FOLDER_VARIABLE, PLAN, WatchPlan
from harness.wire import from_json

BUILDS = "builds"
"""The folder of builds, below that of the caches."""
ENVIRONMENT = {
    "TRITON_DEFAULT_FP_FUSION": "1",  # the default; Triton 3.9 warns at every compile unless it is set
}
HARDWARE_ENVIRONMENT = {
    "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": "0",  # it would launch without Triton's driver
}
VIRTUAL_ENVIRONMENT = {
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}


def attach_on_import(environment: Mapping[str, str]) -> None:
    """Attach the harness as soon as torch or Triton is imported, if the environment names a watched command."""
    folder = environment.get(FOLDER_VARIABLE)
    if not folder:
        return
    attachment = _Attachment(Path(folder))
    on_import("torch", attachment.load_torch)
    on_import("triton", attachment.load_triton)


def prepare_environment(environment: MutableMapping[str, str], plan: WatchPlan) -> None:
    """Set what Triton and Inductor read.

    Their caches are not the user's: without a GPU, kernels are compiled to TTIR only.
    """
    for name, value in (ENVIRONMENT | (HARDWARE_ENVIRONMENT if plan.on_hardware else VIRTUAL_ENVIRONMENT)).items():
        environment.setdefault(name, value)
    kind = "-hardware" if plan.on_hardware else ""
    for name, folder in {
        "TRITON_CACHE_DIR": "triton",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "HARNESS_BUILDS": BUILDS,
    }.items():
        environment[name] = str(Path(plan.scratch, f"{folder}{kind}"))


class _Attachment:
    """Attaches once, after the import of torch."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load_torch(self, module: ModuleType, execute: Execute) -> None:
        del module
        execute()
        with suppress(ModuleNotFoundError):  # torch alone launches no kernel
            importlib.import_module("triton")
            self._attach()

    def load_triton(self, module: ModuleType, execute: Execute) -> None:
        """Load Triton, and torch with it: it is torch whose import attaches."""
        del module
        execute()
        with suppress(ModuleNotFoundError):
            importlib.import_module("torch")

    def _attach(self) -> None:
        plan = from_json((self._folder / PLAN).read_bytes(), WatchPlan)
        prepare_environment(os.environ, plan)
        if plan.on_hardware:
            importlib.import_module("harness.watched.hardware_watch").watch_hardware(plan, self._folder)
        else:
            importlib.import_module("harness.watched.launch_watch").watch_process(plan, self._folder)
