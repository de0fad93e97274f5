"""The C++ part of the emulation: a guard for CUDA devices that does nothing.

Inductor works with fake tensors of device `cuda`.  Each of torch's operators on them asks for a guard of that device,
in C++, which a torch without CUDA lacks.  A torch with CUDA has one, which fails without a GPU.
"""

import ctypes
import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

import torch

from harness.errors import CannotExecute

SOURCE = """
#include <c10/core/impl/DeviceGuardImplInterface.h>
using namespace c10;
struct Guard : impl::NoOpDeviceGuardImpl<DeviceType::CUDA> {
  // Autograd starts a thread for each device.  A process with such threads cannot fork.
  DeviceIndex deviceCount() const noexcept override { return 0; }
};
static impl::DeviceGuardImplRegistrar guard(DeviceType::CUDA, new Guard());
"""


@cache
def install_device_guard(folder: Path) -> None:
    """Build the guard, or take the one in the folder, and load it for the life of the process.

    Raises:
        CannotExecute: there is no C++ compiler, or it fails.
    """
    root = Path(torch.__file__).parent
    compiler = os.environ.get("CXX", "c++")
    key = hashlib.sha256(f"{SOURCE}{torch.__version__}{root}{compiler}".encode()).hexdigest()[:16]
    library = folder / f"device-guard-{key}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f"{library.name}.{os.getpid()}"
        command = (
            *(compiler, "-shared", "-fPIC", "-std=c++20", "-x", "c++", "-", "-o", str(draft)),
            *(f"-I{root / 'include'}", f"-L{root / 'lib'}", "-lc10"),
        )
        try:
            subprocess.run(command, input=SOURCE, text=True, check=True, capture_output=True)
        except FileNotFoundError:
            raise CannotExecute(
                f"a compiled program without a C++ compiler ({compiler}; $CXX names another one)"
            ) from None
        except subprocess.CalledProcessError as error:
            lines = str(error.stderr).strip().splitlines() or ["no message"]
            raise CannotExecute(f"a compiled program: {compiler} cannot build its device guard: {lines[0]}") from None
        draft.rename(library)
    ctypes.CDLL(str(library))
