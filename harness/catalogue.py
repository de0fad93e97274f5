"""The catalogue of GPUs: reads `catalogue.toml`, finds devices by name, and lists their pytest marks.

`torch_emulation` makes torch answer for a device, and `harness.engines.virtual` makes Triton answer for it.
"""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from packaging.version import Version

from harness.errors import UsageError, unknown
from harness.model.device import Architecture, DeviceProfile, Vendor

VENDOR_MARKS = {Vendor.AMD: ("amd",), Vendor.INTEL: ("intel",), Vendor.NVIDIA: ()}
"""The marks of all GPUs of a vendor."""
REGISTERS_PER_SM = 65536
"""Equal for all capabilities since 3.5 (CUDA programming guide, technical specifications per compute capability)."""


@cache
def devices() -> tuple[DeviceProfile, ...]:
    """Return every GPU of the catalogue, in the catalogue's order."""
    catalogue = _catalogue()
    return tuple(_profile(row, catalogue) for row in catalogue["device"])


def find(slug: str) -> DeviceProfile:
    """Return the GPU with this name on the command line.

    Raises:
        UsageError: there is none; the text names the nearest.
    """
    for device in devices():
        if device.slug == slug.strip().lower():
            return device
    raise unknown("device", slug, (device.slug for device in devices()))


def find_all(names: str, *, sm_count: int | None = None) -> tuple[DeviceProfile, ...]:
    """Return the GPUs of a comma-separated list of slugs, architectures (`blackwell`) and capabilities (`sm_120`).

    `amd` is a name of all AMD GPUs, and `intel` of all of Intel's.

    `sm_count` overrides the number of SMs of each.

    Raises:
        UsageError: a name is unknown, or the SM count is not positive.
    """
    if sm_count is not None and sm_count < 1:
        raise UsageError(f"a GPU has at least one SM, not {sm_count}")
    profiles: dict[str, DeviceProfile] = {}
    for name in (part.strip().lower() for part in names.split(",")):
        matching = [device for device in devices() if name == device.slug or name in marks(device)]
        if not matching:
            known = {device.slug for device in devices()} | {mark for device in devices() for mark in marks(device)}
            raise unknown("device", name, known)
        profiles.update((device.slug, device) for device in matching)
    return tuple(device if sm_count is None else device.with_sm_count(sm_count) for device in profiles.values())


def nvidia() -> tuple[DeviceProfile, ...]:
    """Return every NVIDIA GPU of the catalogue, in its order."""
    return tuple(device for device in devices() if device.vendor is Vendor.NVIDIA)


def of_architecture(architecture: Architecture) -> tuple[DeviceProfile, ...]:
    return tuple(device for device in devices() if device.architecture is architecture)


def marks(device: DeviceProfile) -> tuple[str, ...]:
    """Return the pytest marks of a device: generation, slug and capability: `blackwell`, `rtx_pro_6000`, `sm_120`.

    AMD's and Intel's have the vendor too: `cdna3`, `mi300x`, `gfx942`, `amd`.
    """
    own = (str(device.architecture), device.slug.replace("-", "_"), device.arch_name)
    return tuple(dict.fromkeys((*own, *VENDOR_MARKS[device.vendor])))


def gap(device: DeviceProfile, triton_version: str) -> str:
    """Return why this release of Triton makes no machine code for the device, and which does; empty if it does.

    Kernels still run on the virtual GPU, which executes TTIR.  Registers, spills and shared memory stay unknown.
    """
    if device.vendor is Vendor.INTEL:
        return no_backend(triton_version)
    for row in _catalogue()["gap"]:
        is_meant = device.vendor is Vendor.NVIDIA and tuple(row["capability"]) == device.capability
        if is_meant and Version(triton_version) < Version(row["before_triton"]):
            return (
                f"Triton {triton_version} makes no machine code for {device.slug} ({device.arch_name}): "
                f"{row['reason']}; its resources can be judged with triton>={row['before_triton']}"
            )
    return ""


def without_backend() -> frozenset[str]:
    """Return the slugs of the GPUs for which Triton's wheel has no backend."""
    return frozenset(device.slug for device in devices() if device.vendor is Vendor.INTEL)


def no_backend(triton_version: str) -> str:
    """Return why nothing is known of machine code for an Intel GPU."""
    return f"Triton {triton_version} has no backend for Intel's GPUs"


@cache
def _catalogue() -> dict[str, Any]:
    return tomllib.loads(files("harness").joinpath("catalogue.toml").read_text(encoding="utf-8"))


def _profile(row: dict[str, Any], catalogue: dict[str, Any]) -> DeviceProfile:
    if "processor" in row:
        figures: dict[str, Any] = {**catalogue["processor"][row["processor"]], **row}
    else:
        capability = ".".join(map(str, row["capability"]))
        figures = {"registers_per_sm": REGISTERS_PER_SM, **catalogue["capability"][capability], **row}
    figures["architecture"] = Architecture(figures["architecture"])
    figures["capability"] = tuple(figures["capability"])
    return DeviceProfile(**figures)
