"""What torch answers in a process on a real GPU that pretends to run on another model.

In place before a library is imported, and without starting CUDA: the fork server that imports it must never start CUDA,
or none of its children could.  Everything that is not answered here is torch's own and the GPU's.
"""

import torch

from harness.devices.torch_answers import gpu_properties
from harness.errors import WorkerError
from harness.model.device import DeviceProfile


def answer_for(profile: DeviceProfile) -> None:
    """Make torch.cuda tell this profile's figures, in this process, for good."""
    if torch.cuda.is_initialized():
        raise WorkerError("CUDA was started before the device was worn: no worker could be forked from this process")
    properties = gpu_properties(profile)
    answers = {
        "is_available": lambda: True,
        "device_count": lambda: 1,  # workers see one GPU
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: profile.name,  # noqa: ARG005 - torch's own name for it
        "get_device_capability": lambda device=None: profile.capability,  # noqa: ARG005 - as above
        "get_device_properties": lambda device=None: properties,  # noqa: ARG005 - as above
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
