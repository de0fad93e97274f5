"""Names the vendor of the emulated GPU to FlagGems, which otherwise asks nvidia-smi and its like, and finds no GPU."""

import os
import sys


def name_vendor():
    """Set the variable that FlagGems reads when it is imported; do nothing in a process without torch."""
    if (torch := sys.modules.get("torch")) is None:
        return
    if torch.version.hip:
        os.environ["GEMS_VENDOR"] = "amd"
    else:
        os.environ.setdefault("GEMS_VENDOR", "nvidia")
